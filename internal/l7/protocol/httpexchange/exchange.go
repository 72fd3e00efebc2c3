// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"net/http"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/route"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/tracecontext"
)

// Exchange is a request of HTTP and its response. It implements [l7.Operation].
type Exchange struct {
	// Method is one that the semantic conventions know, [rfc9110.OtherMethod], [l7.UnknownText], or "" if the request is not known.
	Method         string
	OriginalMethod []byte // the method as it was sent, if Method is [rfc9110.OtherMethod]
	Target         []byte // the request's target as it was sent, or [l7.UnknownText]
	Scheme         []byte // if the target has one
	Host           []byte // of the target, else of the Host field; without a user's name and password
	Path, Query    []byte // of the target, not decoded and without the question mark; Path may be [l7.UnknownText]
	Version        string // "1.0", "1.1", "2"
	Status         int    // 0 if it is not known
	Pushed         bool   // the server sent the response unasked; the request is the one that it says it answers
	Upgrade        []byte // the protocol that follows a status of 101

	// RequestFields and ResponseFields are the values of the wanted fields, in the order in which these are configured. The values of a
	// field that comes more than once are joined by ", "; nil if there is no such field.
	RequestFields, ResponseFields [][]byte
}

var _ l7.Monitored = (*Exchange)(nil)

// Of returns what HTTP says of an exchange, also of a call of gRPC; nil if the exchange is not one of HTTP.
func Of(e *l7.Exchange) *Exchange {
	if of, ok := e.Operation.(interface{ HTTP() *Exchange }); ok {
		return of.HTTP()
	}
	return nil
}

// HTTP returns the exchange itself. Operations that HTTP carries, such as calls of gRPC, have the method, too.
func (h *Exchange) HTTP() *Exchange { return h }

// Semantics implements [l7.Operation].
func (h *Exchange) Semantics() *l7.Semantics { return Semantics }

// Failed implements [l7.Operation].
func (h *Exchange) Failed(e *l7.Exchange) bool { return e.ErrorType != "" }

// StatusClass implements [l7.Operation].
func (h *Exchange) StatusClass() int { return h.Status / 100 }

// Endpoint implements [l7.Monitored].
func (h *Exchange) Endpoint() (path []byte, status int) { return h.Path, h.Status }

// Texts of a series.
const (
	methodText = iota
	versionText
)

// routes bounds the routes of a process. Requests beyond it have the route [route.Other].
var routes = &l7.Dictionary{
	Reason: "request_routes_full", Most: 200, New: func(most int) l7.Values { return route.NewTable(most) }, Of: func(k *l7.Key) string { return k.Target },
}

// Count implements [l7.Operation].
func (h *Exchange) Count(_ int, e *l7.Exchange, c *l7.Count) (more bool) {
	k := c.Key
	if k.Role == l7.RoleClient {
		h.SetServer(c)
	}
	k.TLS, k.Texts[methodText], k.Texts[versionText], k.Number = c.TLS, h.knownMethod(), h.Version, int64(h.Status)
	c.Values = e.Sizes()
	if !e.Request.Known {
		return false
	}
	if k.Target = c.Dictionary(routes).(*route.Table).Of(h.Path, isFound(h.Status)); k.Target == route.Other {
		c.Full(routes)
	}
	return false
}

// SetServer completes the key of a client's exchange with the server. A redacted host is left out.
func (h *Exchange) SetServer(c *l7.Count) {
	host := h.Host
	if len(host) > 0 && (*redaction)(c.Redaction).header("Host") {
		host = nil
	}
	c.SetServer(host)
}

// knownMethod returns the method, [l7.UnknownText] if the request was not captured.
func (h *Exchange) knownMethod() string {
	if h.Method == "" {
		return l7.UnknownText
	}
	return h.Method
}

// isFound reports whether a status shows that the path exists: servers answer with redirections and refusals (301, 400, 401, 403, 405) for
// any path.
func isFound(status int) bool {
	return status/100 == 2 || status/100 == 5 || status == http.StatusSwitchingProtocols || status == http.StatusNotModified
}

// userAgent is the field that is exported of a request, in addition to those with a trace context.
const userAgent = "User-Agent"

// Fields returns the names of the fields of requests that [Exchange.Record] needs.
func Fields() []string { return append(tracecontext.Fields(), userAgent) }

// Texts of a record.
const (
	recordMethod = iota
	recordOriginal
	recordVersion
	recordHost
	recordAgent
	recordPath
	recordQuery
	// FirstOwnText is the first text of a record that is free for operations that HTTP carries.
	FirstOwnText
)

// recordStatus is the number of a record that has the status.
const recordStatus = 0

// Record implements [l7.Operation].
func (h *Exchange) Record(_ *l7.Exchange, redact *l7.Redaction, w *l7.RecordWriter) {
	w.Texts[recordMethod], w.Texts[recordVersion], w.Numbers[recordStatus] = h.knownMethod(), h.Version, int64(h.Status)
	var agent []byte
	if fields := h.RequestFields; len(fields) > 0 {
		w.Trace, _ = tracecontext.Of(fields)
		agent = fields[len(fields)-1]
	}
	r, host := (*redaction)(redact), h.Host
	if len(host) > 0 && r.header("Host") {
		host = []byte(redactedHeader)
	}
	if agent != nil && r.header(userAgent) {
		agent = []byte(redactedHeader)
	}
	w.Copy(recordOriginal, h.OriginalMethod)
	w.Copy(recordHost, host)
	w.Copy(recordAgent, agent)
	w.Append(recordPath, r.appendPath(w.Buffer(), h.Path))
	w.Append(recordQuery, r.appendQuery(w.Buffer(), h.Query))
}
