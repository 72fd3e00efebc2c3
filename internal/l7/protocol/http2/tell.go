// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"net/http"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// tell hands over an exchange, one side of which may be unknown.
func (p *parser) tell(s *stream, outcome l7.Outcome, why reset) {
	req, resp := p.requestOf(s), p.responseOf(s)
	p.http = l7.HTTP{Version: version, Pushed: s.pushed, RequestFields: p.http.RequestFields[:0], ResponseFields: p.http.ResponseFields[:0]}
	p.exchange = l7.Exchange{Protocol: Name, Role: p.role, Outcome: outcome, HTTP: &p.http, Request: req.told(), Response: resp.told()}
	if req.begun {
		p.describeRequest(&req.fields)
	} else {
		p.sink.Stats.Unpaired++
	}
	if resp.begun && !resp.informational() {
		p.http.Status = resp.status
		p.http.ResponseFields = resp.fields.appendAsked(p.http.ResponseFields, p.wanted.response)
	}
	p.exchange.ErrorType = rfc9110.ErrorType(p.role, outcome, p.http.Status)
	if req.isGRPC || resp.isGRPC {
		p.describeCall(req, resp, why)
	}
	p.sink.Tell(&p.exchange)
}

// told is the message's side of an exchange. A head that is informational is none.
func (h *half) told() l7.Side {
	if !h.begun || h.informational() {
		return l7.Side{}
	}
	side := h.side
	side.Body, side.Whole, side.Content = h.body, h.whole, h.content
	if h.open { // another head may have followed, where the status is not known
		side.First = 0
	}
	if h.missing {
		side.Cut, side.Body, side.Whole = true, l7.Unknown, l7.Unknown
	}
	return side
}

// informational tells whether no other head was seen than one that is followed by another.
func (h *half) informational() bool { return h.open && h.status != 0 }

func (p *parser) describeRequest(f *fields) {
	h := &p.http
	h.Method = l7.UnknownText
	if method := f.get(tagMethod); method != nil {
		h.Method = rfc9110.Method(method)
		if h.Method == l7.OtherMethod {
			h.OriginalMethod = method
		}
	}
	h.Scheme = f.get(tagScheme)
	if h.Host = f.get(tagAuthority); len(h.Host) == 0 {
		h.Host = f.get(tagHost)
	}
	h.Target = f.pseudo(tagPath)
	if h.Target == nil && h.Method == http.MethodConnect {
		h.Target = h.Host
	} else {
		h.Path, h.Query = rfc9110.SplitPath(h.Target)
	}
	h.RequestFields = f.appendAsked(h.RequestFields, p.wanted.request)
}

// describeCall adds what gRPC says.
func (p *parser) describeCall(req, resp *half, why reset) {
	p.grpc = l7.GRPC{Service: unknownText, Method: unknownText, RequestMessages: req.messageCount(), ResponseMessages: resp.messageCount()}
	if service, method, ok := grpc.SplitPath(p.http.Path); ok {
		p.grpc.Service, p.grpc.Method = service, method
	}
	p.grpc.Status = statusOf(req, resp, why)
	if p.grpc.Status != "" {
		p.exchange.ErrorType = ""
		if grpc.IsError(p.role, p.grpc.Status) {
			p.exchange.ErrorType = p.grpc.Status
		}
	}
	p.exchange.GRPC = &p.grpc
}

// messageCount is how many messages of gRPC were sent to their ends.
func (h *half) messageCount() int64 {
	switch {
	case !h.begun, h.missing, !h.isGRPC && h.body > 0:
		return l7.Unknown
	}
	return h.messages.Count()
}

// statusOf is the status of a call: what the server said, else what clients make of how it ended. It is "" where nobody knows.
func statusOf(req, resp *half, why reset) string {
	switch {
	case resp.grpcStatus != "":
		return resp.grpcStatus
	case resp.grpcHidden, resp.doubtful, resp.missing:
		return ""
	case resp.ended:
		return grpc.StatusOfHTTP(resp.status)
	case why.known:
		return statusOfReset(req, why)
	}
	return ""
}

// statusOfReset is the status of a call whose stream was reset: after the request's deadline, that is why.
func statusOfReset(req *half, why reset) string {
	status := grpc.StatusOfReset(why.code)
	if status != grpc.Cancelled || !req.begun || req.side.First == 0 {
		return status
	}
	timeout, ok := grpc.Timeout(req.fields.get(tagGRPCTimeout))
	if ok && why.at-req.side.First >= int64(timeout) {
		return grpc.DeadlineExceeded
	}
	return status
}
