// SPDX-License-Identifier: Apache-2.0

package http1

import "github.com/otelcol-ebpf/ebpfreceiver/internal/l7"

// syncState is how certain it is where requests begin. After missing bytes the body of an unseen request may be under way, and a body may
// contain request lines at the beginning of a transfer. A request is then reported only if something other than its own bytes supports it.
type syncState uint8

const (
	// synced: the next request begins where the one before it ended.
	synced syncState = iota
	// unsynced: bytes of requests are missing.
	unsynced
	// answered: a response has ended since, so that a client that does not pipeline may begin a request.
	answered
	// candidate: the only pending request began in state answered. Its response confirms it if nothing of the direction follows it before.
	candidate
)

// desync notes that bytes of requests are missing. A candidate is dropped.
func (p *parser) desync() {
	p.dropCandidate()
	p.sync = unsynced
}

// mayBegin reports whether a request may begin with the piece, behind missing bytes: the connection was quiet, or all that was open is
// answered. Of pipelined requests responses confirm nothing.
func (p *parser) mayBegin(piece *l7.Piece) bool {
	if p.sync == synced {
		return true
	}
	guess := classify(piece.Data, int64(len(piece.Data)) >= piece.Length)
	if guess != l7.Request && guess != l7.Perhaps {
		p.sync = unsynced // the response did not end the request
		return false
	}
	return p.sync == answered && p.pending.Len() == 0 && !p.pipelined
}

// resyncQuiet trusts the next transfer of a connection that was quiet before.
func (p *parser) resyncQuiet(piece *l7.Piece) {
	r := &p.requests
	if p.sync == synced || piece.First()-p.last < p.sink.Limits.Quiet || r.state != stateSearch && r.state != stateStart {
		return
	}
	p.dropCandidate()
	r.stream.Forget()
	p.sync = synced
}

// unconfirm passes over what looked like a request and was not confirmed.
func (p *parser) unconfirm() {
	p.sink.Stats.Losses++
	p.lossy = true
	p.desync()
	r := &p.requests
	r.stream.Forget()
	r.state, r.unsure, r.cur = stateSearch, true, nil
}

// dropCandidate removes the candidate without a report: its response, if one comes, is reported as that of an unseen request.
func (p *parser) dropCandidate() {
	if p.sync != candidate {
		return
	}
	if q := p.pending.Front(); q != nil {
		if p.response.request == q {
			p.response.request, p.response.ownerless = nil, true
		}
		q.free()
		p.pop()
	}
	p.sync = unsynced
}

// confirm decides on the candidate when a response begins: it is its own if the whole request was sent before.
func (p *parser) confirm() {
	if p.sync != candidate {
		return
	}
	if q := p.pending.Front(); q != nil && q.done && q.side.Ended && q.side.First <= p.response.side.First {
		p.sync = synced
		return
	}
	p.unconfirm()
}
