// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// samples is the number of connections that are kept per series.
	samples = len(slot{}.Samples)
	// reviews bounds how many connections are resolved again for a report: each one that is in no table costs a query to connection tracking,
	// some 10 µs.
	reviews = 256
	// tries is the number of reports for which an unknown peer is resolved again without a new connection: it may be noted after the client
	// is first reported.
	tries = 3
)

// answer is the remote end of one connection of a series.
type answer struct {
	peer
	process *observe.SubjectKey // at the remote end, in scope or not; nil: unknown
	listens bool                // the process listens there; another one may have accepted
}

// otherEnd is the remote end of the connections of a series, as far as they were resolved.
type otherEnd struct {
	own     peer // from the socket
	said    answer
	asked   [samples]tuple
	tried   int
	several bool // the connections lead to several processes that exist at the same time
	changed bool // since the last report: it is unknown which counts belong to which process
	same    bool // the changed processes have the same service.name
	gone    bool // the process has exited
	ended   bool // it had exited at the last report
}

// begin resets e for the series with a key. It is called before anything is resolved.
func (e *otherEnd) begin(k *key) {
	own := peerOf(k)
	*e = otherEnd{own: own, said: answer{peer: own}}
}

// peerToReport returns the peer for the attributes.
func (e *otherEnd) peerToReport() peer {
	if e.changed {
		who := e.own
		if e.same {
			who.service, who.local = e.said.service, e.said.local
		}
		return who
	}
	who := e.said.peer
	if e.several || e.ended {
		who.pid = 0
	}
	if e.ended {
		who.service = ""
	}
	return who
}

// update takes the answer for the next connection. runs reports whether a process has not exited: only then are two answers about different
// processes.
func (e *otherEnd) update(a *answer, runs func(observe.SubjectKey) bool) {
	same := a.address == e.said.address && a.port == e.said.port
	switch {
	case a.process == nil && a.peer == e.own:
		return // nothing is known
	case e.several:
		e.mix(a)
	case same && a.process == nil:
		return // less than before
	case same && e.said.process != nil && *a.process == *e.said.process:
		e.said = *a // it may have come into scope
	case e.said.process == nil && (same || e.said.peer == e.own), e.said.process != nil && !runs(*e.said.process):
		e.change(a)
		e.gone, e.ended = false, false
	case same && a.listens:
		return // it has accepted nothing yet
	case same && e.said.listens:
		e.change(a)
	default:
		e.several = true
		e.mix(a)
	}
}

// change makes another process the peer from now on.
func (e *otherEnd) change(a *answer) {
	e.same = a.service != "" && a.service == e.said.service
	e.said, e.changed = *a, true
}

// mix keeps what the answers have in common.
func (e *otherEnd) mix(a *answer) {
	if a.address != e.said.address || a.port != e.said.port {
		e.said.address, e.said.port = e.own.address, e.own.port
	}
	if a.process == nil || a.service != e.said.service {
		e.said.service = ""
	}
	e.said.local = e.said.local && a.process != nil
}

// questions returns the connections of a series that were not resolved yet, oldest first.
func (s *series) questions(at *slot) []question {
	var list []question
	first := (int(at.Newest) + 1) % samples
	for i := range samples {
		sample := at.Samples[(first+i)%samples]
		if sample == (tuple{}) || slices.Contains(s.other.asked[:], sample) {
			continue
		}
		list = append(list, question{series: s, sample: sample})
	}
	s.other.asked = at.Samples
	return list
}

// updatePeers passes the answers to the series of the questions.
func updatePeers(questions []question, runs func(observe.SubjectKey) bool) {
	for i := range questions {
		q := &questions[i]
		q.series.other.update(&q.answer, runs)
	}
}

// movable reports whether the peer of the series may change. Of a server it does not: the kernel has a series for each client.
func (s *series) movable() bool { return s.flow != nil && Role(s.key.Role) == Client }

// review checks whether clients' connections lead to the same peers as at the last report.
func (t *table) review() error {
	var questions []question
	runs := t.remembering()
	for id, s := range t.live {
		if !s.movable() {
			continue
		}
		e, at := &s.other, &t.slots.items[id]
		e.changed = false
		if process := e.said.process; process != nil && !e.several && !e.ended {
			gone := !runs(*process)
			if gone {
				serves, err := t.serves(s, runs)
				if err != nil {
					return err
				}
				gone = !serves
			}
			e.gone, e.ended = gone, e.gone
		}
		if len(questions) < reviews {
			questions = append(questions, s.again(at)...)
		}
	}
	if err := t.ask(questions); err != nil {
		return err
	}
	updatePeers(questions, runs)
	return nil
}

// serves reports whether the service that accepted the newest connection of a client still listens there, though the process that accepted it
// has exited: that of a server that forks for each connection, or one of several workers.
// ended: that of a server which forks for each connection, or one of several workers.
func (t *table) serves(s *series, runs func(observe.SubjectKey) bool) (bool, error) {
	at := &t.slots.items[s.id]
	process, err := t.ends.listener(&at.Samples[at.Newest%uint32(samples)])
	if err != nil || process == nil || !runs(*process) {
		return false, err
	}
	subject, _ := t.host.Subject(*process, "")
	if subject == nil || s.other.said.service == "" || subject.Process().ServiceName != s.other.said.service {
		return false, nil
	}
	s.other.said.pid = 0
	return true, nil
}

// again returns the questions about a series that was reported before.
func (s *series) again(at *slot) []question {
	list := s.questions(at)
	switch {
	case len(list) > 0:
		s.other.tried = 0
	case s.other.said.process == nil && s.other.tried < tries:
		s.other.tried++
		list = []question{{series: s, sample: at.Samples[at.Newest%uint32(samples)]}}
	}
	return list
}

// remembering returns t.runs with a cache of its results.
func (t *table) remembering() func(observe.SubjectKey) bool {
	known := map[observe.SubjectKey]bool{}
	return func(who observe.SubjectKey) bool {
		runs, ok := known[who]
		if !ok {
			runs = t.runs(who)
			known[who] = runs
		}
		return runs
	}
}
