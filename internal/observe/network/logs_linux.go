// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// topEvent is the event name of logs of top requests.
const topEvent = "ebpf.request.top"

// Logs returns the logs of the requests that are exported one by one and have ended since the last call.
func (o *Observer) Logs() []*model.Logs {
	exporter := o.newRequestExporter(time.Now())
	exporter.each(requests.AsLog, func(r *requests.Request) { exporter.log(r, "") })
	exporter.each(requests.AsSample, exporter.sample)
	return exporter.logs
}

// Spans returns the spans of the requests that have ended since the last call.
func (o *Observer) Spans() []*model.Spans {
	exporter := o.newRequestExporter(time.Now())
	taken, early := exporter.take(requests.AsSpan)
	made, waiting := requests.Pair(taken, exporter.local, exporter.at, o.stopped)
	for _, r := range made {
		exporter.span(r)
	}
	exporter.giveBack(made, append(early, waiting...), requests.AsSpan)
	return exporter.spans
}

// local returns what is known of the remote end of a request's connection, if it is a process of this host.
func (t *requestExporter) local(r *requests.Request) requests.Local {
	s := t.connection(r).series
	if s == nil || s.flow == nil || s.flow.overflow {
		return requests.Local{}
	}
	other := s.other.peerToReport()
	return requests.Local{PID: other.pid, Here: other.local || other.pid != 0}
}

// each exports the requests that wait in a form.
func (t *requestExporter) each(as requests.Form, export func(*requests.Request)) {
	taken, early := t.take(as)
	for _, r := range taken {
		export(r)
	}
	t.giveBack(taken, early, as)
}

// take returns the requests that wait in a form. Early are those whose peer is not known yet, which the next report finds, or whose process
// is undecided.
func (t *requestExporter) take(as requests.Form) (taken, early []*requests.Request) {
	o := t.o
	if o.capture == nil || o.capture.journal == nil {
		return nil, nil
	}
	all := o.capture.journal.Take(as)
	o.nameRequests()
	taken = all[:0]
	for _, r := range all {
		if s := t.connection(r).series; s != nil && s.process != nil && s.flow == nil || o.capture.totals.Waits(r.Subject) {
			early = append(early, r)
			continue
		}
		taken = append(taken, r)
	}
	return taken, early
}

// giveBack returns exported requests to the journal, and those that must wait.
func (t *requestExporter) giveBack(reported, waiting []*requests.Request, as requests.Form) {
	if c := t.o.capture; c != nil && c.journal != nil {
		c.journal.Release(reported, as)
		c.journal.PutBack(waiting, as)
	}
}

// exportTop returns logs of the requests that took longest in an interval.
func (o *Observer) exportTop(top map[requests.Reason][]*requests.Request, at time.Time) []*model.Logs {
	exporter := o.newRequestExporter(at)
	for reason, list := range top {
		attribute := model.Text("ebpf.reason", string(reason))
		for _, r := range list {
			exporter.log(r, topEvent, attribute)
		}
	}
	return exporter.logs
}

// requestExporter makes logs and spans of requests whose processes are known. It leaves out the role that is not configured.
type requestExporter struct {
	o         *Observer
	at        time.Time
	logs      []*model.Logs
	spans     []*model.Spans
	logsOf    map[*model.Process]*requests.Together
	samplesOf map[*model.Process]*model.Logs
	spansOf   map[*model.Process]*model.Spans
	peers     map[uint32][]model.Attribute // by series
	few       requests.Room                // of processes with few logs
	// Of the request before, which most others have, too.
	subject   observe.SubjectKey
	owner     *model.Process
	connected remoteEnd
}

// remoteEnd is the remote end of a request's connection.
type remoteEnd struct {
	id, generation uint32
	series         *series // nil if its slot belongs to another one now
	peer           []model.Attribute
	known          bool // whether the fields above are set
}

func (o *Observer) newRequestExporter(at time.Time) *requestExporter {
	return &requestExporter{
		o: o, at: at,
		logsOf: map[*model.Process]*requests.Together{}, samplesOf: map[*model.Process]*model.Logs{},
		spansOf: map[*model.Process]*model.Spans{}, peers: map[uint32][]model.Attribute{},
	}
}

// process returns the process of a request, nil if it is not exported.
func (t *requestExporter) process(r *requests.Request) *model.Process {
	if only := requestRoles[t.o.config.Only]; !r.IsOf(only) {
		return nil
	}
	if t.subject != r.Subject {
		t.subject, t.owner = r.Subject, t.o.capture.totals.Process(r.Subject)
	}
	return t.owner
}

// log adds the log of a request; event replaces its event name unless it is empty.
func (t *requestExporter) log(r *requests.Request, event string, more ...model.Attribute) {
	process := t.process(r)
	if process == nil {
		return
	}
	t.logsFor(process).Add(r, event, t.peer(r), t.at, more)
}

// logsFor returns the list for the next log of a process. The first logs allocate what they need, those of a process with many logs whole
// pages.
func (t *requestExporter) logsFor(process *model.Process) *requests.Together {
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

// sample adds the logs of a request that was taken as a sample, separate from others: those may be on a page, whose memory is known, and
// these have content.
func (t *requestExporter) sample(r *requests.Request) {
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
func (t *requestExporter) span(r *requests.Request) {
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

// peer returns the attributes of the peer of a request's connection.
func (t *requestExporter) peer(r *requests.Request) []model.Attribute {
	c := t.connection(r)
	if s := c.series; s == nil || s.flow == nil || s.flow.overflow {
		other := peer{address: r.Peer.Addr(), port: r.Peer.Port()}
		return other.appendOther(nil)
	}
	if c.peer == nil {
		c.peer = t.peers[c.id]
	}
	if c.peer == nil {
		who := c.series.other.peerToReport()
		c.peer = who.appendOther(nil)
		t.peers[c.id] = c.peer
	}
	return c.peer
}

// connection returns the remote end of a request's connection.
func (t *requestExporter) connection(r *requests.Request) *remoteEnd {
	if c := &t.connected; !c.known || c.id != r.Series || c.generation != r.Generation {
		*c = remoteEnd{id: r.Series, generation: r.Generation, series: t.o.series(r), known: true}
	}
	return &t.connected
}

// series returns that of a request's connection, nil if its slot belongs to another one now.
func (o *Observer) series(r *requests.Request) *series {
	if int(r.Series) >= len(o.table.slots.items) || o.table.slots.items[r.Series].Generation != r.Generation {
		return nil
	}
	return o.table.live[r.Series]
}
