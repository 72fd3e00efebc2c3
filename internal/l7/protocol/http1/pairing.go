// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"math"
	"net/http"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// beginRequest begins a request, if the line begins one.
func (p *parser) beginRequest(line []byte, got l7.Got) bool {
	method, target, version := requestLine(line)
	ok, cut := version != "", got != l7.Whole
	if !ok && cut {
		method, target, ok = cutRequestLine(line)
	}
	if !ok {
		return false
	}
	name := rfc9110.Method(method)
	if p.requests.unsure && !rfc9110.IsMethod(method) && (cut || !mayBeMethod(method) || !isTargetStart(target[0])) {
		return false
	}
	q := p.pushRequest()
	limit := p.sink.Limits.Values
	q.method, q.version, q.side.Cut = name, version, cut
	q.target = q.keep(target, limit)
	q.original = span{}
	if name == rfc9110.OtherMethod {
		q.original = q.keep(method, limit)
	}
	p.keepRequest(q)
	p.adopt(q)
	return true
}

// keepRequest begins to keep the content of a request, if that is wanted.
func (p *parser) keepRequest(q *request) {
	contents := p.sink.Contents
	if contents == nil || !p.kept {
		return
	}
	t := splitTarget(q.method, q.at(q.target))
	if purposes := contents.Wanted(t.Path, t.Query); purposes != 0 {
		q.content = contents.New(purposes, p.requests.opening)
	}
}

// keepResponse does the same with the response to a request whose content is kept.
func (p *parser) keepResponse(resp *response) {
	if q := resp.request; q != nil && q.content != nil {
		resp.content = p.sink.Contents.New(q.content.For, p.responses.opening)
	}
}

// pushRequest makes a place for a request that begins where the reader is.
func (p *parser) pushRequest() *request {
	r := &p.requests
	alone := p.pending.Len() == 1
	if alone && p.responses.state == stateTail && p.response.request != nil && p.responses.last <= r.first {
		p.finish(&p.responses, p.responses.last)
		p.responses.unsure = true
	}
	p.trustAgain()
	q := p.pending.Push()
	p.kept = q != nil
	if !p.kept {
		p.sink.Stats.Unkept++
		q = &p.spare
	}
	q.reset(r.fields.asked, r.first, r.begin, r.place)
	q.host, q.expects, q.done, q.behind, q.tag = span{}, false, false, p.lossy, p.tag
	if p.sync == answered {
		p.sync = candidate
	}
	p.reading, r.cur = q, &q.message
	return q
}

// doubt notes that messages of a direction may be missing. The responses that are due to requests from before are still their own where it is
// requests that are.
func (p *parser) doubt(r *reader) {
	p.lossy = true
	for i := 0; r.kind == l7.Response && p.pending.At(i) != nil; i++ {
		p.pending.At(i).behind = true
	}
}

// doubtful reports whether it is unknown which response is the request's: requests are pipelined, and messages before it may be missing.
func (p *parser) doubtful(q *request) bool { return q.behind && p.pipelined }

// trustAgain trusts the order of responses again when nothing of before the request that begins can be on its way.
func (p *parser) trustAgain() {
	if p.requests.idle < p.sink.Limits.Quiet {
		return
	}
	if p.lossy && p.pipelined {
		p.miss(&p.responses, p.last)
		p.pending.Clear()
	}
	if p.pending.Len() == 0 {
		p.lossy, p.owed = false, 0
	}
}

// adopt gives a request the response that was seen before it, if it can be its own. Clients may be seen to read a response while the
// call that wrote its request has not returned yet.
func (p *parser) adopt(q *request) {
	resp := &p.response
	if !resp.active || resp.request != nil || resp.ownerless {
		return
	}
	if !p.kept || p.sync == candidate || p.pending.Len() != 1 || resp.side.First <= q.side.First {
		resp.ownerless = true
		if resp.done {
			p.reportUnpaired()
		}
		return
	}
	resp.request = q
	if r := &p.responses; q.method == http.MethodHead && resp.headed && resp.body == 0 && !resp.done {
		p.finish(r, r.last)
	}
}

// requestDone goes on after a request was read to its end.
func (p *parser) requestDone(m *message) {
	if p.reading != nil && m == &p.reading.message {
		p.reading.done = true
		p.reading = nil
	}
	p.settle()
}

// beginResponse begins a response, if the line begins one, and finds its request.
func (p *parser) beginResponse(line []byte, _ l7.Got) bool {
	version, status := statusLine(line)
	if status == 0 {
		return false
	}
	resp, r := &p.response, &p.responses
	if resp.active {
		p.abandonRequest(resp.request)
		p.settle()
	}
	if resp.active {
		p.reportUnpaired()
	}
	if front := p.pending.Front(); p.refused > 0 && (p.pending.Len() > 1 || front != nil && p.missed > front.side.First) {
		p.giveUp(p.refused) // what was refused may have been its response, and this be another one's
	}
	p.refused = 0
	resp.reset(r.fields.asked, r.first, r.begin, r.place)
	resp.status, resp.version, resp.upgrade = status, version, span{}
	resp.active, resp.headed, resp.done = true, false, false
	r.cur = &resp.message
	p.pair()
	p.keepResponse(resp)
	return true
}

// pair finds the request that the response answers: the first that waits, if it began before the response.
func (p *parser) pair() {
	resp := &p.response
	resp.request, resp.ownerless, resp.unkept = nil, false, false
	p.confirm()
	front := p.pending.Front()
	switch {
	case front == nil:
		p.pipelined = p.pipelined || p.hidden // it answers a request that was not seen
		resp.unkept = p.pending.Len() > 0
		// A server has read what it answers.
		resp.ownerless = resp.unkept || p.role == l7.RoleServer
	case resp.side.First < front.side.First:
		resp.ownerless = true
	default:
		resp.request = front
		if next := p.pending.At(1); next != nil && next.side.First < resp.side.First {
			p.pipelined = true
		}
	}
}

// responseDone goes on after a response was read to its end.
func (p *parser) responseDone() {
	p.response.done = true
	if p.sync == unsynced {
		p.sync = answered
	}
	if p.response.ownerless {
		p.reportUnpaired()
		return
	}
	p.settle()
}

// settle reports the exchange whose request and response were both read to their ends.
func (p *parser) settle() {
	resp := &p.response
	if !resp.active || !resp.done || resp.request == nil {
		return
	}
	q := resp.request
	if q == p.reading && p.requests.state == stateTail {
		p.finish(&p.requests, p.requests.last) // which settles
		p.requests.state, p.requests.unsure = stateStart, true
		return
	}
	if q.done {
		p.endResponse(l7.Complete)
	}
}

// endResponse reports the response with its request, as far as they are known, and is ready for the next one.
func (p *parser) endResponse(outcome l7.Outcome) {
	resp, r := &p.response, &p.responses
	if r.cur != nil {
		r.cur.end(r.last, r.stream.Offset())
		r.cur = nil
	}
	if resp.side.Ended {
		outcome = l7.Complete
	}
	q := resp.request
	if q == nil {
		p.reportUnpairedAs(outcome)
		return
	}
	resp.active, resp.request = false, nil
	if p.doubtful(q) || resp.isInterim() {
		p.report(q, nil, l7.Lost)
	} else {
		p.report(q, resp, outcome)
	}
	p.pop()
	if resp.body == l7.Unknown {
		p.giveUp(resp.side.Last)
	}
}

// pop removes the first request of the queue, which is not read any more.
func (p *parser) pop() {
	if q := p.pending.Front(); q != nil && q == p.reading {
		p.reading, p.requests.cur = nil, nil
	}
	p.pending.Pop()
}

// abandonRequest ends a request that is still being read, as far as it was seen.
func (p *parser) abandonRequest(q *request) {
	if q == nil || q.done {
		return
	}
	q.end(p.requests.last, p.requests.stream.Offset())
	q.done = true
	if p.requests.state == stateTail {
		q.side.Ended = !q.missing
	}
	p.reading, p.requests.cur = nil, nil
}

// reportUnpaired reports a response whose request was not seen.
func (p *parser) reportUnpaired() { p.reportUnpairedAs(l7.Complete) }

func (p *parser) reportUnpairedAs(outcome l7.Outcome) {
	resp := &p.response
	if resp.unkept {
		p.pending.Pop()
	}
	p.sink.Stats.Unpaired++
	resp.active = false
	if p.owed > 0 {
		p.owed-- // it answers one of those: each request counts once
		resp.free()
	} else {
		p.report(nil, resp, outcome)
	}
	// It may have been one to HEAD, so that what was taken for its body was other responses.
	if resp.body != 0 {
		p.giveUp(resp.side.Last)
	}
}

// flush reports requests without a response, from the first on, while of gives them an outcome.
func (p *parser) flush(of func(*request) (outcome l7.Outcome, ok bool)) {
	for {
		q := p.pending.Front()
		if q == nil {
			return
		}
		outcome, ok := of(q)
		if !ok {
			return
		}
		p.abandonRequest(q)
		p.report(q, nil, outcome)
		p.pop()
	}
}

// lose goes on after bytes that are missing before the piece.
func (p *parser) lose(r *reader, piece *l7.Piece) {
	if r.cur != nil {
		r.cur.content.CutBody()
	}
	inBody := r.state == stateBody || r.state == stateChunk
	if inBody && piece.Lost > 0 && piece.Lost < r.left {
		r.left -= piece.Lost
		r.stream.Pass(piece.Lost)
		if r.cur != nil {
			r.cur.body += piece.Lost
		}
		return
	}
	p.sink.Stats.Losses++
	at := piece.LostAt
	if at == 0 {
		at = math.MaxInt64 // anything may have been lost
	}
	p.last = max(p.last, min(at, piece.Began))
	if r.kind == l7.Request {
		p.missed = piece.First()
	}
	p.miss(r, at)
	if r.kind == l7.Request && p.response.done && p.response.side.First >= at {
		p.sync = answered // records of responses may come before that of the loss
	}
}

// miss goes on after missing bytes of a direction, the last of which were transferred at the given time.
func (p *parser) miss(r *reader, at int64) {
	p.lossy = true
	r.stream.Forget()
	if r.kind == l7.Request {
		p.missRequests()
	} else {
		p.missResponses(at)
	}
	r.state, r.unsure, r.cur = stateSearch, true, nil
}

// missRequests ends the request being read. Those before it keep their turn.
func (p *parser) missRequests() {
	p.desync()
	if q := p.reading; q != nil {
		q.side.Cut, q.missing, q.body = true, true, l7.Unknown
		p.abandonRequest(q)
		p.settle()
	}
}

// missResponses ends the response being read and gives up what may have been answered in what is missing.
func (p *parser) missResponses(at int64) {
	p.dropCandidate()
	if resp := &p.response; resp.active {
		if !resp.done {
			resp.side.Cut, resp.missing, resp.body = true, true, l7.Unknown
		}
		p.abandonRequest(resp.request)
		p.endResponse(l7.Lost)
	}
	p.giveUp(at)
}

// giveUp reports requests without a response whose responses may have come by the given time, in bytes that were not read as such.
func (p *parser) giveUp(at int64) {
	p.dropCandidate()
	before := p.pending.Len()
	if before > 0 {
		p.doubt(&p.responses)
	}
	p.flush(func(q *request) (l7.Outcome, bool) { return l7.Lost, q.side.First <= at })
	if p.pipelined && before > 0 {
		p.flush(func(*request) (l7.Outcome, bool) { return l7.Lost, true })
	}
	if p.pipelined || before > 1 || at == math.MaxInt64 {
		p.owed = uint8(min(int(p.owed)+before-p.pending.Len(), math.MaxUint8))
	}
	if p.pending.Front() == nil {
		p.pending.Clear()
	}
}

// leave ends HTTP/1 on the connection: another protocol follows.
func (p *parser) leave() {
	p.dropCandidate()
	if p.response.active {
		p.abandonRequest(p.response.request)
		p.endResponse(l7.Complete)
	}
	p.flush(func(*request) (l7.Outcome, bool) { return l7.Unanswered, true })
	p.freeContents()
	p.left = true
}
