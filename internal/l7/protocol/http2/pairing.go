// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// ending is how a stream was ended but by its messages. The zero value: it was not.
type ending struct {
	cause l7.Cause
	at    int64 // 0 where it is not known
	reset bool  // by a reset with this code
	code  uint32
}

// endHalf ends a message with its last DATA frame.
func (p *parser) endHalf(r *reader, id uint32, at int64) {
	s := p.streams.find(id)
	if s == nil || s.halves[r.direction].ended {
		return
	}
	p.finish(s, &s.halves[r.direction], at)
}

// finish ends a message.
func (p *parser) finish(s *stream, h *half, at int64) {
	h.ended, h.open, h.doubtful = true, false, false
	h.side.Ended, h.side.Last = true, at
	p.settle(s)
}

// settle reports the exchange of a stream if nothing of it is to come: the response was seen to its end, and so was the request, as far as
// it may be. Clients may be seen to read a response while the call that wrote its request has not returned yet; servers have read
// what they answer.
func (p *parser) settle(s *stream) {
	if p.role == l7.RoleUnknown {
		return
	}
	req, resp := p.requestOf(s), p.responseOf(s)
	switch {
	case !resp.ended:
	case req.begun:
		if req.ended || req.doubtful {
			p.end(s, l7.Complete, ending{})
		}
	case s.ownerless, p.role == l7.RoleServer:
		p.end(s, l7.Complete, ending{})
	}
}

// causeOf is which end has sent what is read.
func causeOf(r *reader) l7.Cause {
	if r.direction == l7.Write {
		return l7.ClosedLocally
	}
	return l7.ClosedRemotely
}

// resetStream ends a stream whose one end wants no more of it.
func (p *parser) resetStream(r *reader, why ending) {
	s := p.streams.find(r.frame.stream)
	if s == nil || r.trust != trusted || p.role == l7.RoleUnknown {
		return
	}
	why.cause = causeOf(r)
	outcome := p.outcomeOf(s)
	if outcome == l7.Lost {
		outcome = l7.Aborted
	}
	p.end(s, outcome, why)
}

// goAway reports requests that the server will not answer: those on streams after the last that it says it may.
func (p *parser) goAway(r *reader, last uint32, at int64) {
	if !p.isResponse(r) || r.trust != trusted {
		return
	}
	for i := len(p.streams.active) - 1; i >= 0; i-- {
		s := p.streams.active[i]
		if s.id > last && !s.pushed && !p.responseOf(s).begun && p.requestOf(s).begun {
			p.end(s, l7.Unanswered, ending{cause: causeOf(r), at: at})
		}
	}
}

// endDoubtful reports the exchange of a stream of which nothing more may come.
func (p *parser) endDoubtful(s *stream) {
	outcome := l7.Lost
	if p.responseOf(s).ended {
		outcome = l7.Complete
	}
	p.end(s, outcome, ending{})
}

// end reports the exchange of a stream and forgets it.
func (p *parser) end(s *stream, outcome l7.Outcome, why ending) {
	if p.requestOf(s).begun || p.responseOf(s).begun {
		p.report(s, outcome, why)
	}
	p.streams.remove(s)
}
