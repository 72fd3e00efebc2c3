// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// topEvent is the name of logs of top requests.
const topEvent = "ebpf.request.top"

// Logs returns the requests that are told one by one and have ended since.
func (o *Observer) Logs() []*model.Logs {
	tell := o.newTeller(time.Now())
	tell.each(requests.AsLog, func(r *requests.Request) { tell.log(r, "") })
	tell.each(requests.AsSample, tell.sample)
	return tell.logs
}

// Spans returns the requests that are told as spans and have ended since.
func (o *Observer) Spans() []*model.Spans {
	tell := o.newTeller(time.Now())
	tell.each(requests.AsSpan, tell.span)
	return tell.spans
}

// each has the requests told that wait to be in a form, unless it is not known yet who
// the peer is: that is found out with the next report.
func (t *teller) each(as requests.Form, tell func(*requests.Request)) {
	o := t.o
	if o.capture == nil || o.capture.journal == nil {
		return
	}
	taken := o.capture.journal.Take(as)
	o.nameRequests()
	var early []*requests.Request
	told := taken[:0]
	for _, r := range taken {
		if s := t.connection(r).series; s != nil && s.process != nil && s.flow == nil {
			early = append(early, r)
			continue
		}
		tell(r)
		told = append(told, r)
	}
	o.capture.journal.Told(told, as)
	o.capture.journal.PutBack(early, as)
}

// tellTop returns logs of the requests that took longest in an interval.
func (o *Observer) tellTop(top map[requests.Reason][]*requests.Request, at time.Time) []*model.Logs {
	tell := o.newTeller(at)
	for reason, list := range top {
		attribute := model.Text("ebpf.reason", string(reason))
		for _, r := range list {
			tell.log(r, topEvent, attribute)
		}
	}
	return tell.logs
}

// teller makes logs and spans of requests whose processes are known. Of the role that is
// left out it tells nothing.
type teller struct {
	o         *Observer
	at        time.Time
	logs      []*model.Logs
	spans     []*model.Spans
	logsOf    map[*model.Process]*requests.Together
	samplesOf map[*model.Process]*model.Logs
	spansOf   map[*model.Process]*model.Spans
	peers     map[uint32][]model.Attribute // by series
	few       requests.Room                // of processes with few logs
	// Those of the request before, which most others have, too.
	subject   observe.SubjectKey
	whose     *model.Process
	connected far
}

// far is the other end of a request's connection.
type far struct {
	id, generation uint32
	series         *series // nil where it is another's by now
	peer           []model.Attribute
	known          bool // what is said of it here
}

func (o *Observer) newTeller(at time.Time) *teller {
	return &teller{
		o: o, at: at,
		logsOf: map[*model.Process]*requests.Together{}, samplesOf: map[*model.Process]*model.Logs{},
		spansOf: map[*model.Process]*model.Spans{}, peers: map[uint32][]model.Attribute{},
	}
}

// process is who a request is told of, nil where nobody is.
func (t *teller) process(r *requests.Request) *model.Process {
	if only := requestRoles[t.o.config.Only]; !r.IsOf(only) {
		return nil
	}
	if t.subject != r.Subject {
		t.subject, t.whose = r.Subject, t.o.capture.totals.Process(r.Subject)
	}
	return t.whose
}

// log adds a log of a request, under another name than its own if one is given.
func (t *teller) log(r *requests.Request, event string, more ...model.Attribute) {
	process := t.process(r)
	if process == nil {
		return
	}
	t.logsFor(process).Tell(r, event, t.peer(r), t.at, more)
}

// logsFor is where the next log of a process goes. The first ones take as much memory as they need, those of a process with
// many whole pages.
func (t *teller) logsFor(process *model.Process) *requests.Together {
	of := t.logsOf[process]
	switch {
	case of == nil:
		few := requests.Few(process, &t.few)
		of = &few
		t.logsOf[process] = of
	case !of.Full():
		return of
	default:
		*of = t.o.pages.Begin(process)
	}
	t.logs = append(t.logs, of.Logs)
	return of
}

// sample adds the logs of a request that was taken as a sample, apart from others: those may lie on a page, whose memory is
// known, and these have content.
func (t *teller) sample(r *requests.Request) {
	process := t.process(r)
	if process == nil {
		return
	}
	of := t.samplesOf[process]
	if of == nil {
		of = &model.Logs{Process: process}
		t.samplesOf[process] = of
		t.logs = append(t.logs, of)
	}
	of.Logs = append(of.Logs, r.Samples(t.peer(r), t.at)...)
}

// span adds a request's span.
func (t *teller) span(r *requests.Request) {
	process := t.process(r)
	if process == nil {
		return
	}
	of := t.spansOf[process]
	if of == nil {
		of = &model.Spans{Process: process}
		t.spansOf[process] = of
		t.spans = append(t.spans, of)
	}
	of.Spans = append(of.Spans, r.Span(t.peer(r)))
}

// peer says who is at the other end of a request's connection.
func (t *teller) peer(r *requests.Request) []model.Attribute {
	c := t.connection(r)
	if s := c.series; s == nil || s.flow == nil || s.flow.overflow {
		other := peer{address: r.Peer.Addr(), port: r.Peer.Port()}
		return other.appendOther(nil)
	}
	if c.peer == nil {
		c.peer = t.peers[c.id]
	}
	if c.peer == nil {
		c.peer = c.series.flow.appendOther(nil)
		t.peers[c.id] = c.peer
	}
	return c.peer
}

// connection is that of a request.
func (t *teller) connection(r *requests.Request) *far {
	if c := &t.connected; !c.known || c.id != r.Series || c.generation != r.Generation {
		*c = far{id: r.Series, generation: r.Generation, series: t.o.series(r), known: true}
	}
	return &t.connected
}

// series is that of a request's connection, nil where it is another's by now.
func (o *Observer) series(r *requests.Request) *series {
	if int(r.Series) >= len(o.table.places.items) || o.table.places.items[r.Series].Generation != r.Generation {
		return nil
	}
	return o.table.live[r.Series]
}
