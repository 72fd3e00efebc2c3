// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// topEvent is the name of logs of top requests.
const topEvent = "ebpf.request.top"

// Logs returns the requests that are told one by one and have ended since.
func (o *Observer) Logs() []*model.Logs {
	if o.capture == nil || o.capture.journal == nil {
		return nil
	}
	taken := o.capture.journal.Take()
	o.nameRequests()
	tell := o.newTeller(time.Now())
	var early []*requests.Request
	for _, r := range taken {
		if !tell.request(r) {
			early = append(early, r)
		}
	}
	o.capture.journal.PutBack(early)
	return tell.all
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
	return tell.all
}

// teller makes logs of requests whose processes are known.
type teller struct {
	o     *Observer
	at    time.Time
	all   []*model.Logs
	of    map[*model.Process]*model.Logs
	peers map[uint32][]model.Attribute // by series
}

func (o *Observer) newTeller(at time.Time) *teller {
	return &teller{o: o, at: at, of: map[*model.Process]*model.Logs{}, peers: map[uint32][]model.Attribute{}}
}

// request tells of a request, unless it is not known yet who the peer is: that is found
// out with the next report. Of the role that is left out nothing is told.
func (t *teller) request(r *requests.Request) bool {
	if s := t.o.series(r); s != nil && s.process != nil && s.flow == nil {
		return false
	}
	t.log(r, "")
	return true
}

// log adds a log of a request, under another name than its own if one is given.
func (t *teller) log(r *requests.Request, event string, more ...model.Attribute) {
	process := t.o.capture.totals.Process(r.Subject)
	if only := requestRoles[t.o.config.Only]; process == nil || !r.IsOf(only) {
		return
	}
	l := r.Log(t.peer(r), t.at)
	if event != "" {
		l.Event = event
	}
	l.Attributes = append(l.Attributes, more...)
	logs := t.of[process]
	if logs == nil {
		logs = &model.Logs{Process: process}
		t.of[process] = logs
		t.all = append(t.all, logs)
	}
	logs.Logs = append(logs.Logs, l)
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
