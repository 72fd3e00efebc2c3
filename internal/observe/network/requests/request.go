// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/tracecontext"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// userAgent is the field that is told of a request beside those that carry a context.
const userAgent = "User-Agent"

// Fields are the fields of requests whose values are needed to tell of them one by one.
func Fields() []string { return append(tracecontext.Fields(), userAgent) }

// Request is one request with its response, as it is told by itself.
type Request struct {
	Whom
	role  l7.Role
	began time.Time // its first byte, or that of its response where it was not seen
	ended time.Time // its last byte, or that of its request where there is no response
	// took is how long it took, where timed.
	took  time.Duration
	timed bool
	slow  bool

	method, original, version, errorType string
	// Texts of the request; empty ones were not there, or not seen.
	route, path, query, host, agent string
	status                          int // 0: not known
	// call is the full method of a call by gRPC, else empty; code its status.
	call, code string
	// name and kind are those of a lookup's question, else empty.
	name, kind string
	failed     bool
	// sizes are those of the request's body, the response's, and the whole messages, or
	// [l7.Unknown].
	sizes [4]int64
	trace tracecontext.Context
	// sample is its content, nil unless it is told as a sample.
	sample *sample
	// kept is in how many of the journal's lists it is, or was when they were taken and has not been told since.
	kept int
}

// newRequest copies what is told of an exchange. wall converts monotonic time, in ns.
func newRequest(whom Whom, e *l7.Exchange, route string, redact *Redaction, wall func(ns int64) time.Time) *Request {
	return new(Request).take(whom, e, route, redact, wall)
}

// take is the same in a place where there is nothing.
func (r *Request) take(whom Whom, e *l7.Exchange, route string, redact *Redaction, wall func(ns int64) time.Time) *Request {
	r.Whom, r.role, r.ended, r.route = whom, e.Role, wall(endOf(e)), route
	r.errorType, r.failed, r.status = e.ErrorType, failed(e), statusOf(e)
	r.began = wall(cmp.Or(e.Request.First, e.Response.First, e.Request.Last, e.Response.Last))
	ns, timed := Duration(e)
	r.took, r.timed = time.Duration(ns), timed
	if e.DNS != nil {
		r.name, r.kind = string(nameOf(e.DNS)), kindOf(e.DNS)
	} else {
		r.keepHTTP(e, redact)
	}
	return r
}

// endOf is the monotonic time of the last byte of an exchange, in ns.
func endOf(e *l7.Exchange) int64 { return max(e.Request.Last, e.Response.Last) }

// keepHTTP copies what is told of HTTP.
func (r *Request) keepHTTP(e *l7.Exchange, redact *Redaction) {
	h := e.HTTP
	r.method, r.version, r.sizes = h.Method, h.Version, sizes(e)
	if r.method == "" {
		r.method = l7.UnknownText // its request was not seen
	}
	var agent []byte
	if fields := h.RequestFields; len(fields) > 0 {
		r.trace, _ = tracecontext.Of(fields)
		agent = fields[len(fields)-1]
	}
	host := h.Host
	if len(host) > 0 && redact.header("Host") {
		host = []byte(redactedHeader)
	}
	if agent != nil && redact.header(userAgent) {
		agent = []byte(redactedHeader)
	}
	r.keep(h, host, agent, redact)
	if e.GRPC != nil {
		r.call, r.code = string(methodOf(e)), e.GRPC.Status
	}
}

// statusOf is that of a response of HTTP, 0 where there is none.
func statusOf(e *l7.Exchange) int {
	if e.HTTP == nil {
		return 0
	}
	return e.HTTP.Status
}

// keep copies all texts at once.
func (r *Request) keep(h *l7.HTTP, host, agent []byte, redact *Redaction) {
	var room [512]byte // more than that lies elsewhere
	all := room[:0]
	var ends [4]int
	for i, text := range [...][]byte{h.OriginalMethod, host, agent} {
		all = append(all, text...)
		ends[i] = len(all)
	}
	all = redact.appendPath(all, h.Path)
	ends[3] = len(all)
	text := string(redact.appendQuery(all, h.Query))
	r.original, r.host, r.agent, r.path = text[:ends[0]], text[ends[0]:ends[1]], text[ends[1]:ends[2]], text[ends[2]:ends[3]]
	r.query = text[ends[3]:]
}

// sizes are those of the request's body, the response's, and the whole messages, where
// they are known.
func sizes(e *l7.Exchange) [4]int64 {
	all := [4]int64{e.Request.Body, e.Response.Body, e.Request.Whole, e.Response.Whole}
	for i, side := range [4]*l7.Side{&e.Request, &e.Response, &e.Request, &e.Response} {
		if !side.Known || !side.Ended || all[i] < 0 {
			all[i] = l7.Unknown
		}
	}
	return all
}

// bytes is the memory that it takes.
func (r *Request) bytes() uint64 {
	return placeBytes + uint64(len(r.original)+len(r.path)+len(r.query)+len(r.host)+len(r.agent)+len(r.call)+len(r.name)) + r.sample.bytes()
}

// sizeKeys are the attributes of Request.sizes.
var sizeKeys = [4]string{"http.request.body.size", "http.response.body.size", "http.request.size", "http.response.size"}

// Log tells of the request; peer are the attributes of the other side. Its own are in room.
func (r *Request) Log(room *Room, peer []model.Attribute, observed time.Time) model.Log {
	l := r.bareLog(observed)
	l.Attributes = room.end(append(r.appendLog(room.begin(mostAttributes+len(peer))), peer...))
	return l
}

// bareLog is a log without attributes.
func (r *Request) bareLog(observed time.Time) model.Log {
	l := model.Log{
		Event: "ebpf.request", Time: r.ended, Observed: observed,
		TraceID: r.trace.TraceID, SpanID: r.trace.SpanID, Sampled: r.trace.Sampling == tracecontext.Sampled,
	}
	switch {
	case r.failed:
		l.Severity = model.Error
	case r.slow:
		l.Severity = model.Warn
	}
	return l
}

// mostAttributes is how many attributes a log of a request has at most, beside those of its peer.
const mostAttributes = 24

// appendLog appends the attributes of a log.
func (r *Request) appendLog(list []model.Attribute) []model.Attribute {
	list = append(r.appendTo(list, routeKey), model.Text("ebpf.role", r.role.String()))
	if r.timed {
		list = append(list, model.Float("ebpf.request.duration", r.took.Seconds()))
	}
	return list
}

// routeKey is the attribute that has the route.
const routeKey = "http.route"

// appendTo appends the attributes of the request by the conventions; route is the key of its route.
func (r *Request) appendTo(list []model.Attribute, route string) []model.Attribute {
	if r.name != "" {
		return r.appendLookup(list)
	}
	list = appendText(list, "http.request.method", r.method)
	list = appendText(list, "http.request.method_original", r.original)
	list = appendText(list, route, r.route)
	if r.status != 0 {
		list = append(list, model.Int("http.response.status_code", int64(r.status)))
	}
	list = appendText(list, "error.type", r.errorType)
	if r.call != "" {
		list = append(list, rpcSystem)
	}
	list = appendText(list, "rpc.method", r.call)
	list = appendText(list, "rpc.response.status_code", r.code)
	list = appendText(list, "network.protocol.name", protocolName)
	list = appendText(list, "network.protocol.version", r.version)
	list = appendText(list, "url.scheme", schemeOf(r.TLS))
	if r.TLS {
		list = append(list, throughTLS)
	}
	list = appendText(list, "url.path", r.path)
	list = appendText(list, "url.query", r.query)
	list = appendText(list, "user_agent.original", r.agent)
	list = r.appendServer(list)
	for i, size := range r.sizes {
		if size != l7.Unknown {
			list = append(list, model.Int(sizeKeys[i], size))
		}
	}
	return list
}

// appendText appends a text that is known.
func appendText(list []model.Attribute, key, value string) []model.Attribute {
	if value == "" {
		return list
	}
	return append(list, model.Text(key, value))
}

// appendServer appends who was asked: the host that the request names, else of a client
// whom its connection leads to.
func (r *Request) appendServer(list []model.Attribute) []model.Attribute {
	host, port := r.server()
	if host != "" {
		list = append(list, model.Text("server.address", host))
	}
	if host != "" && port != 0 {
		list = append(list, model.Int("server.port", port))
	}
	return list
}

// server is who was asked, "" and 0 where that is not known.
func (r *Request) server() (host string, port int64) {
	host, port = splitHost(r.host)
	if host == "" && r.role == l7.RoleClient && r.Peer.IsValid() {
		host = r.Peer.Addr().String()
	}
	if port == 0 && r.role == l7.RoleClient {
		port = int64(r.Peer.Port())
	}
	return host, port
}

// IsOf tells whether the process had this role; [l7.RoleUnknown]: any.
func (r *Request) IsOf(role l7.Role) bool { return role == l7.RoleUnknown || r.role == role }
