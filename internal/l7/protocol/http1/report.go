// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// report hands over an exchange, one side of which may be unknown.
func (p *parser) report(q *request, resp *response, outcome l7.Outcome) {
	p.http = httpexchange.Exchange{RequestFields: p.http.RequestFields[:0], ResponseFields: p.http.ResponseFields[:0]}
	e := &p.exchange // the rest is as it was made
	e.Role, e.Outcome, e.Ended, e.Tag = p.role, outcome, 0, 0
	if q != nil {
		e.Tag = q.tag
		e.Request = q.side
		e.Request.Content = q.content
		p.describeRequest(q)
	} else {
		e.Request = l7.Side{}
	}
	if resp != nil {
		e.Response = resp.side
		e.Response.Content = resp.content
		p.http.Status = resp.status
		p.http.Upgrade = resp.at(resp.upgrade)
		p.http.ResponseFields = resp.appendAsked(p.http.ResponseFields)
		if p.http.Version == "" {
			p.http.Version = resp.version
		}
	} else {
		e.Response = l7.Side{}
	}
	if resp == nil && (outcome == l7.Unanswered || outcome == l7.Aborted) {
		e.Ended = p.end.After(e.Request.First)
	}
	e.ErrorType = rfc9110.ErrorType(p.role, outcome, p.end.CauseOf(), p.http.Status)
	p.sink.Report(e)
	if q != nil {
		q.free()
	}
	if resp != nil {
		resp.free()
	}
}

func (p *parser) describeRequest(q *request) {
	h := &p.http
	h.Method, h.OriginalMethod, h.Version = q.method, q.at(q.original), q.version
	h.Target = q.at(q.target)
	t := splitTarget(q.method, h.Target)
	h.Scheme, h.Host, h.Path, h.Query = t.Scheme, t.Host, t.Path, t.Query
	if len(h.Host) == 0 {
		h.Host = rfc9110.WithoutUserinfo(q.at(q.host))
	}
	h.RequestFields = q.appendAsked(h.RequestFields)
}
