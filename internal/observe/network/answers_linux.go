// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// samples is how many connections of a series are known.
	samples = len(place{}.Samples)
	// reviews bounds how many connections are asked about again for a report: those of
	// which no table knows cost a question to connection tracking each, some 10 µs.
	reviews = 256
	// tries is for how many reports a peer that is not known is looked for without a new
	// connection: it may be noted later than its client is told first.
	tries = 3
)

// answer is where one connection of a series leads.
type answer struct {
	peer
	process *observe.SubjectKey // at the other end, in scope or not; nil: not known
	listens bool                // the process listens there; another one may have accepted
}

// otherEnd is where the connections of a series lead, as far as they were asked about.
type otherEnd struct {
	own     peer // as the socket has it
	said    answer
	asked   [samples]tuple
	tried   int
	several bool // they lead to several that are there at the same time
	changed bool // since the last report: it is not known what was with whom
	gone    bool // the process has ended
	ended   bool // that was so at the last report
}

// begin is called before anything is asked.
func (e *otherEnd) begin(k *key) {
	own := peerOf(k)
	*e = otherEnd{own: own, said: answer{peer: own}}
}

// told is the peer that attributes name.
func (e *otherEnd) told() peer {
	if e.changed {
		return e.own
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

// hear takes what was found out of the next connection. Runs tells whether a process has
// not ended: only then are two answers about different ones.
func (e *otherEnd) hear(a *answer, runs func(observe.SubjectKey) bool) {
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
		e.said, e.changed, e.gone, e.ended = *a, true, false, false
	case same && a.listens:
		return // it has accepted nothing yet
	case same && e.said.listens:
		e.said, e.changed = *a, true
	default:
		e.several = true
		e.mix(a)
	}
}

// mix has the answers told as far as they agree.
func (e *otherEnd) mix(a *answer) {
	if a.address != e.said.address || a.port != e.said.port {
		e.said.address, e.said.port = e.own.address, e.own.port
	}
	if a.process == nil || a.service != e.said.service {
		e.said.service = ""
	}
}

// questions are the connections of a series that were not asked about yet, oldest first.
func (s *series) questions(at *place) []question {
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

// hear has the series of questions take their answers.
func hear(questions []question, runs func(observe.SubjectKey) bool) {
	for i := range questions {
		q := &questions[i]
		q.series.other.hear(&q.answer, runs)
	}
}

// movable tells whether it may be another peer's from now on: of a server the kernel
// itself tells connections of different clients apart.
func (s *series) movable() bool { return s.flow != nil && Role(s.key.Role) == Client }

// review looks whether clients' connections lead where they did at the last report.
func (t *table) review() error {
	var questions []question
	runs := t.remembering()
	for id, s := range t.live {
		if !s.movable() {
			continue
		}
		e, at := &s.other, &t.places.items[id]
		e.changed = false
		if process := e.said.process; process != nil && !e.several && !e.ended {
			e.gone, e.ended = !runs(*process), e.gone
		}
		if len(questions) < reviews {
			questions = append(questions, s.again(at)...)
		}
	}
	if err := t.ask(questions); err != nil {
		return err
	}
	hear(questions, runs)
	return nil
}

// again are the questions about a series that was told before.
func (s *series) again(at *place) []question {
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

// remembering tells of each process once whether it runs.
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
