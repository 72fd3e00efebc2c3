// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// logsTogether is how many logs of a process lie in one piece of memory at most: where
// there are many, they are not moved to a larger one again and again.
const logsTogether = 512

// topEvent is the name of logs of top requests.
const topEvent = "ebpf.request.top"

// Logs returns the requests that are told one by one and have ended since.
func (o *Observer) Logs() []*model.Logs {
	tell := o.newTeller(time.Now())
	o.tellEach(requests.AsLog, func(r *requests.Request) { tell.log(r, "") })
	o.tellEach(requests.AsSample, tell.sample)
	return tell.logs
}

// Spans returns the requests that are told as spans and have ended since.
func (o *Observer) Spans() []*model.Spans {
	tell := o.newTeller(time.Now())
	o.tellEach(requests.AsSpan, tell.span)
	return tell.spans
}

// tellEach has the requests told that wait to be in a form, unless it is not known yet who
// the peer is: that is found out with the next report.
func (o *Observer) tellEach(as requests.Form, tell func(*requests.Request)) {
	if o.capture == nil || o.capture.journal == nil {
		return
	}
	taken := o.capture.journal.Take(as)
	o.nameRequests()
	var early []*requests.Request
	told := taken[:0]
	for _, r := range taken {
		if s := o.series(r); s != nil && s.process != nil && s.flow == nil {
			early = append(early, r)
			continue
		}
		tell(r)
		told = append(told, r)
	}
	o.capture.journal.Told(told)
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
	o       *Observer
	at      time.Time
	logs    []*model.Logs
	spans   []*model.Spans
	logsOf  map[*model.Process]*model.Logs
	spansOf map[*model.Process]*model.Spans
	peers   map[uint32][]model.Attribute // by series
	room    requests.Room
}

func (o *Observer) newTeller(at time.Time) *teller {
	return &teller{
		o: o, at: at,
		logsOf: map[*model.Process]*model.Logs{}, spansOf: map[*model.Process]*model.Spans{}, peers: map[uint32][]model.Attribute{},
	}
}

// process is who a request is told of, nil where nobody is.
func (t *teller) process(r *requests.Request) *model.Process {
	if only := requestRoles[t.o.config.Only]; !r.IsOf(only) {
		return nil
	}
	return t.o.capture.totals.Process(r.Subject)
}

// log adds a log of a request, under another name than its own if one is given.
func (t *teller) log(r *requests.Request, event string, more ...model.Attribute) {
	process := t.process(r)
	if process == nil {
		return
	}
	l := r.Log(&t.room, t.peer(r), t.at)
	if event != "" {
		l.Event = event
	}
	l.Attributes = append(l.Attributes, more...)
	t.addLogs(process, l)
}

func (t *teller) addLogs(process *model.Process, more ...model.Log) {
	of := t.logsOf[process]
	if full := of != nil && len(of.Logs) >= logsTogether; of == nil || full {
		of = &model.Logs{Process: process}
		if full {
			of.Logs = make([]model.Log, 0, logsTogether)
		}
		t.logsOf[process] = of
		t.logs = append(t.logs, of)
	}
	of.Logs = append(of.Logs, more...)
}

// sample adds the logs of a request that was taken as a sample.
func (t *teller) sample(r *requests.Request) {
	if process := t.process(r); process != nil {
		t.addLogs(process, r.Samples(t.peer(r), t.at)...)
	}
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
	s := t.o.series(r)
	if s == nil || s.flow == nil || s.flow.overflow {
		other := peer{address: r.Peer.Addr(), port: r.Peer.Port()}
		return other.appendOther(nil)
	}
	list, ok := t.peers[s.id]
	if !ok {
		list = s.flow.appendOther(nil)
		t.peers[s.id] = list
	}
	return list
}

// series is that of a request's connection, nil where it is another's by now.
func (o *Observer) series(r *requests.Request) *series {
	if int(r.Series) >= len(o.table.places.items) || o.table.places.items[r.Series].Generation != r.Generation {
		return nil
	}
	return o.table.live[r.Series]
}
