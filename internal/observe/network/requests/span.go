// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/tracecontext"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Span tells of the request as a span; peer are the attributes of the other side. Each call
// makes another span id.
func (r *Request) Span(peer []model.Attribute) model.Span {
	s := model.Span{
		Name: r.spanName(), Kind: model.ServerSpan, Start: r.began, End: r.ended, Failed: r.errorType != "",
		TraceID: r.trace.TraceID, ParentID: r.trace.SpanID, Sampled: r.trace.Sampling != tracecontext.NotSampled,
	}
	if r.timed {
		s.End = r.began.Add(r.took)
	}
	chance(s.SpanID[:])
	if s.TraceID == [16]byte{} {
		s.ParentID = [8]byte{}
		chance(s.TraceID[:])
	}
	// Whose span a client's carried context is, its own or of a span of it, nobody knows.
	s.Remote = r.role == l7.RoleServer && s.ParentID != [8]byte{}
	room := make([]model.Attribute, 0, mostAttributes+len(peer))
	switch r.role {
	case l7.RoleClient:
		s.Kind = model.ClientSpan
		s.Attributes = r.appendTo(room, "url.template")
		if url := r.url(); url != "" {
			s.Attributes = append(s.Attributes, model.Text("url.full", url))
		}
	default:
		s.Attributes = r.appendTo(room, routeKey)
	}
	s.Attributes = append(s.Attributes, peer...)
	return s
}

// spanName is the method of a call by gRPC, else that of HTTP with the route, where it is
// known; the conventions have one name for methods that they do not know.
func (r *Request) spanName() string {
	switch r.call {
	case "":
	case l7.UnknownText:
		return rpcSystem.Value.Text
	default:
		return r.call
	}
	name := r.method
	if name == l7.OtherMethod || name == l7.UnknownText {
		name = "HTTP"
	}
	if r.route != "" {
		name += " " + r.route
	}
	return name
}

// url is what was asked for, "" where that is not known whole, or not to be told.
func (r *Request) url() string {
	host, port := r.server()
	if host == "" || host == redactedHeader || !strings.HasPrefix(r.path, "/") {
		return ""
	}
	if port != 0 {
		host = net.JoinHostPort(host, strconv.FormatInt(port, 10))
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	url := schemeOf(r.TLS) + "://" + host + r.path
	if r.query != "" {
		url += "?" + r.query
	}
	return url
}

// chance fills an id, 8 bytes at a time, with what is not 0: it need not be secret.
func chance(id []byte) {
	for ; len(id) > 0; id = id[8:] {
		binary.NativeEndian.PutUint64(id, max(rand.Uint64(), 1))
	}
}
