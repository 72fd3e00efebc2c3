// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"net/http"
	"strconv"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

const statuses = 1000

// statusTexts are the statuses as error.type has them.
var statusTexts = func() (texts [statuses]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}()

// tell hands over an exchange, one side of which may be unknown.
func (p *parser) tell(q *request, resp *response, outcome l7.Outcome) {
	p.http = l7.HTTP{RequestFields: p.http.RequestFields[:0], ResponseFields: p.http.ResponseFields[:0]}
	p.exchange = l7.Exchange{Protocol: Name, Role: p.role, Outcome: outcome, HTTP: &p.http}
	if q != nil {
		p.exchange.Request = q.side
		p.describeRequest(q)
	}
	if resp != nil {
		p.exchange.Response = resp.side
		p.http.Status = resp.status
		p.http.Upgrade = resp.at(resp.upgrade)
		p.http.ResponseFields = resp.appendAsked(p.http.ResponseFields)
		if p.http.Version == "" {
			p.http.Version = resp.version
		}
	}
	p.exchange.ErrorType = p.errorType(outcome)
	p.sink.Tell(&p.exchange)
}

func (p *parser) describeRequest(q *request) {
	h := &p.http
	h.Method, h.OriginalMethod, h.Version = q.method, q.at(q.original), q.version
	h.Target = q.at(q.target)
	t := splitTarget(q.method, h.Target)
	h.Scheme, h.Host, h.Path, h.Query = t.scheme, t.host, t.path, t.query
	if len(h.Host) == 0 {
		h.Host = q.at(q.host)
	}
	h.RequestFields = q.appendAsked(h.RequestFields)
}

// errorType is the conventions' error.type: a server's own failures, and for clients all that is refused.
func (p *parser) errorType(outcome l7.Outcome) string {
	least := http.StatusBadRequest
	if p.role == l7.RoleServer {
		least = http.StatusInternalServerError
	}
	switch {
	case outcome == l7.Aborted:
		return l7.ErrorAborted
	case outcome == l7.Unanswered:
		return l7.ErrorNoResponse
	case p.http.Status >= least:
		return statusTexts[p.http.Status]
	}
	return ""
}
