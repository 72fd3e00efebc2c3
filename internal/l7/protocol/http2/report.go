// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"net/http"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// report hands over an exchange, one side of which may be unknown.
func (p *parser) report(s *stream, outcome l7.Outcome, why ending) {
	req, resp := p.requestOf(s), p.responseOf(s)
	p.http = httpexchange.Exchange{Version: version, Pushed: s.pushed, RequestFields: p.http.RequestFields[:0], ResponseFields: p.http.ResponseFields[:0]}
	p.exchange = l7.Exchange{Protocol: Name, Role: p.role, Outcome: outcome, Operation: &p.http, Request: req.exchangeSide(), Response: resp.exchangeSide()}
	if req.begun {
		p.describeRequest(&req.fields)
	} else {
		p.sink.Stats.Unpaired++
	}
	if resp.begun && !resp.informational() {
		p.http.Status = resp.status
		p.http.ResponseFields = resp.fields.appendAsked(p.http.ResponseFields, p.wanted.response)
	}
	if outcome == l7.Unanswered || outcome == l7.Aborted && (why.reset || !p.exchange.Response.Known) {
		p.exchange.Ended = why.at // else the last byte of the response is its end
	}
	p.exchange.ErrorType = rfc9110.ErrorType(p.role, outcome, why.cause, p.http.Status)
	if req.isGRPC || resp.isGRPC {
		p.describeCall(req, resp, why)
	}
	p.sink.Report(&p.exchange)
}

// exchangeSide is the message's side of an exchange. A head that is informational is none.
func (h *half) exchangeSide() l7.Side {
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

// informational reports whether no other head was seen than one that is followed by another.
func (h *half) informational() bool { return h.open && h.status != 0 }

func (p *parser) describeRequest(f *fields) {
	h := &p.http
	h.Method = l7.UnknownText
	if method := f.get(tagMethod); method != nil {
		h.Method = rfc9110.Method(method)
		if h.Method == rfc9110.OtherMethod {
			h.OriginalMethod = method
		}
	}
	h.Scheme = f.get(tagScheme)
	if h.Host = f.get(tagAuthority); len(h.Host) == 0 {
		h.Host = f.get(tagHost)
	}
	h.Host = rfc9110.WithoutUserinfo(h.Host)
	h.Target = f.pseudo(tagPath)
	if h.Target == nil && h.Method == http.MethodConnect {
		h.Target = h.Host
	} else {
		t := rfc9110.SplitTarget(h.Target)
		h.Path, h.Query = t.Path, t.Query
	}
	h.RequestFields = f.appendAsked(h.RequestFields, p.wanted.request)
}

// describeCall adds what gRPC says.
func (p *parser) describeCall(req, resp *half, why ending) {
	p.call = grpccall.Call{Exchange: &p.http, Service: unknownText, Name: unknownText, RequestMessages: req.messageCount(), ResponseMessages: resp.messageCount()}
	if service, method, ok := grpc.SplitPath(p.http.Path); ok {
		p.call.Service, p.call.Name = service, method
	}
	p.call.Status = statusOf(p.role, req, resp, why)
	if p.call.Status != "" {
		p.exchange.ErrorType = ""
		if grpc.IsError(p.role, p.call.Status) {
			p.exchange.ErrorType = p.call.Status
		}
	}
	p.exchange.Operation = &p.call
}

// messageCount is how many messages of gRPC were sent to their ends.
func (h *half) messageCount() int64 {
	switch {
	case !h.begun, h.missing, !h.isGRPC && h.body > 0:
		return l7.Unknown
	}
	return h.messages.Count()
}

// statusOf is the status of a call: what the server said, else what the role's end makes of how it ended. It is "" where that is not known.
func statusOf(role l7.Role, req, resp *half, why ending) string {
	switch {
	case resp.grpcStatus != "":
		return resp.grpcStatus
	case resp.grpcHidden, resp.doubtful:
		return ""
	case why.reset && !resp.ended:
		return statusOfReset(req, why)
	case resp.missing:
		return ""
	case resp.ended:
		return grpc.StatusOfHTTP(resp.status)
	}
	return statusOfEnd(role, req, why)
}

// statusOfReset is the status of a call whose stream was reset: after the request's deadline, that is why.
func statusOfReset(req *half, why ending) string {
	status := grpc.StatusOfReset(why.code)
	if status == grpc.Cancelled && pastDeadline(req, why.at) {
		return grpc.DeadlineExceeded
	}
	return status
}

// statusOfEnd is the status of a call whose connection ended, or whose stream the server will not look at any more.
func statusOfEnd(role l7.Role, req *half, why ending) string {
	switch {
	case why.cause == l7.CauseUnknown:
		return ""
	case pastDeadline(req, why.at):
		return grpc.DeadlineExceeded
	case why.cause.GaveUp(role):
		return grpc.Cancelled
	}
	return grpc.Unavailable
}

// pastDeadline reports whether the deadline of a call has passed. It is counted from the request's first byte, which the client sends
// after it has computed the time that is left, and which it rounds up to 1 % of it at most.
func pastDeadline(req *half, at int64) bool {
	const late = 25e6 // ns
	if !req.begun || req.side.First == 0 || at == 0 {
		return false
	}
	timeout, ok := grpc.Timeout(req.fields.get(tagGRPCTimeout))
	ns := int64(timeout)
	return ok && at-req.side.First >= ns-ns/100-min(ns/4, late)
}
