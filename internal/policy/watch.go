// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// maxRequestWindows bounds the windows of requests of all processes; a period of an hour
// takes some 900 bytes, one of a minute 400.
const maxRequestWindows = 16384

// maxGaugeWindows bounds those of what processes use; a period of an hour takes some 600
// bytes, one of a minute 150.
const maxGaugeWindows = 65536

// keptGauge is how many values a window of a process or of the host keeps.
const keptGauge = 2

// Watch watches processes by policies. Its methods may be called from any goroutine.
type Watch struct {
	mu       sync.Mutex
	policies []*watched
	members  map[model.ProcessID]*member
	order    []*member
	dirty    []*member // for which requests arrived since the last evaluation
	second   int64     // the last that has ended
	read     time.Duration
	host     map[*monitor.Descriptor]float64 // of that second
	// requestWindows, gaugeWindows and bytes are what windows of processes take.
	requestWindows, gaugeWindows, bytes int
	// inherited are those that another watch has watched, until they are added here, or
	// for so long that they have ended.
	inherited      map[model.ProcessID]*member
	inheritedUntil int64
	// matches is what was done since the last evaluation to find out which rules paths count for; key
	// is a buffer to look them up.
	matches int
	key     []byte
	stats   Stats
}

// Stats counts since the start.
type Stats struct {
	// Late are requests that arrived too long after they had ended, Crowded those
	// requests and values of seconds that could not have another window.
	Late, Crowded uint64
	// Unmatched are requests that were not matched with the rules, since a second had more
	// different paths than can be matched.
	Unmatched uint64
	// Missed are seconds at whose end the policies were not evaluated.
	Missed uint64
	// Triggers are how often policies have triggered, including again after a trigger has started nothing.
	Triggers uint64
}

// watched is a policy with the windows of what is the host's, by rule.
type watched struct {
	Policy
	host  [][]window
	paths paths
}

// Trigger is a policy that holds for a process.
type Trigger struct {
	Policy  Policy
	Process *model.Process
	// Causes are all rules of the policy that hold, one at least.
	Causes []model.Cause
	// Reported: an earlier trigger was reported, and nothing has started since.
	Reported bool

	percent float64 // of the CPUs, that the process used
}

// New watches by policies.
func New(policies []Policy) *Watch {
	w := &Watch{members: map[model.ProcessID]*member{}}
	w.policies = w.takeOver(policies)
	return w
}

// young is how long before the last reading a process may have begun for all of its time
// to count when it is first read: it did not exist before, or was not known.
const young = 10 * time.Second

// beginning is when a process began, by CLOCK_BOOTTIME.
func beginning(id model.ProcessID) time.Duration {
	const tick = time.Second / model.TicksPerSecond
	return time.Duration(id.StartTicks) * tick
}

// Add watches a process by the policies that match it. Others no longer watch it, but their silence
// goes on. Of a young process all that it has used counts.
func (w *Watch) Add(p *model.Process, by []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.members[p.ID]
	if m == nil {
		if m = w.inherited[p.ID]; m != nil {
			m.returns()
		} else {
			m = &member{}
			if began := beginning(p.ID); w.read > 0 && began >= w.read-young {
				m.read = max(began, 1)
			}
		}
		delete(w.inherited, p.ID)
		m.place = len(w.order)
		w.members[p.ID] = m
		w.order = append(w.order, m)
	} else {
		m.returns()
	}
	m.process = p
	w.subject(m, by)
	w.leave(m)
}

// Unread records that what a process uses is not read before it is added again: what it uses until
// then counts for no second.
func (w *Watch) Unread(id model.ProcessID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.members[id]; m != nil {
		m.read = 0
	}
}

// leave forgets a process that no policy matches or has a silence period for.
func (w *Watch) leave(m *member) {
	if len(m.subjects)+len(m.resting) == 0 {
		w.remove(m)
	}
}

// subject has a process watched by these policies.
func (w *Watch) subject(m *member, by []int) {
	before := m.subjects
	m.subjects = make([]subject, 0, len(by))
	for _, i := range by {
		if i >= len(w.policies) {
			continue // by policies that were replaced in between
		}
		s := subject{of: w.policies[i], windows: make([][]window, len(w.policies[i].When))}
		j := slices.IndexFunc(before, func(b subject) bool { return b.of.Name == s.of.Name })
		if j >= 0 {
			s.gate = before[j].gate
			carry(s.windows, s.of.When, before[j].windows, before[j].of.When)
		} else if gate := m.rested(s.of.Name); gate != nil {
			s.gate = *gate
		}
		for k := range s.of.When {
			if s.windows[k] == nil && s.of.When[k].Monitor.OfProcesses() {
				w.makeGauge(&s, k)
			}
		}
		m.subjects = append(m.subjects, s)
	}
	w.giveBack(before)
	w.rest(m, before)
}

// makeGauge makes the window of a rule about what a process uses, unless the capacity is exhausted.
func (w *Watch) makeGauge(s *subject, rule int) bool {
	if w.gaugeWindows >= maxGaugeWindows {
		return false
	}
	of := &s.of.When[rule]
	s.windows[rule] = []window{makeWindow(of.Threshold, of.Period, keptGauge)}
	w.gaugeWindows++
	w.bytes += s.windows[rule][0].bytes()
	return true
}

// put writes the last second's values of a process into its windows.
func (w *Watch) put(m *member, second int64) {
	for i := range m.subjects {
		s := &m.subjects[i]
		for j := range s.of.When {
			value, ok := m.value(s.of.When[j].Monitor)
			switch {
			case !ok:
			case s.windows[j] == nil && !w.makeGauge(s, j):
				w.stats.Crowded++
			default:
				s.windows[j][0].put(second, value)
			}
		}
	}
}

// giveBack releases the capacity of windows.
func (w *Watch) giveBack(subjects []subject) {
	for i := range subjects {
		for j, windows := range subjects[i].windows {
			for k := range windows {
				if windows[k].marks == nil {
					continue
				}
				w.bytes -= windows[k].bytes()
				if subjects[i].of.When[j].Monitor.OfRequests() {
					w.requestWindows--
				} else {
					w.gaugeWindows--
				}
			}
		}
	}
}

// Remove stops watching a process.
func (w *Watch) Remove(id model.ProcessID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.members[id]; m != nil {
		w.remove(m)
	}
}

func (w *Watch) remove(m *member) {
	last := len(w.order) - 1
	w.order[m.place] = w.order[last]
	w.order[m.place].place = m.place
	w.order[last] = nil
	w.order = w.order[:last]
	delete(w.members, m.process.ID)
	w.giveBack(m.subjects)
	m.subjects, m.resting = nil, nil
}

// Reading is what was read at the end of a second.
type Reading struct {
	// Second is the last that has ended, At the moment of the reading, of CLOCK_BOOTTIME.
	Second int64
	At     time.Duration
	// CPUs are those of the host that are online.
	CPUs int
	// Host are the values of monitors of the host, as far as there are any.
	Host map[*monitor.Descriptor]float64
	// Usage is what a process has used; false where that is not known. It must not call the
	// Watch.
	Usage func(model.ProcessID) (Usage, bool)
}

// Tick takes what was read at the end of a second, and returns which policies hold, for those first that
// use the CPUs most: of what is the host's they are the likeliest cause, and there may be no capacity for
// all. A second is evaluated once.
func (w *Watch) Tick(r Reading) []Trigger {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Second <= w.second {
		return nil
	}
	if w.second != 0 {
		w.stats.Missed += uint64(r.Second - w.second - 1)
	}
	switch {
	case w.inherited == nil:
	case w.inheritedUntil == 0:
		w.inheritedUntil = r.Second + inheritFor
	case r.Second > w.inheritedUntil:
		w.disinherit()
	}
	w.matches = 0
	w.second, w.read, w.host = r.Second, r.At, r.Host
	for _, p := range w.policies {
		for i := range p.host {
			if value, ok := r.Host[p.When[i].Monitor]; ok && p.host[i] != nil {
				p.host[i][0].put(r.Second, value)
			}
		}
	}
	var fired []Trigger
	for _, m := range w.order {
		m.hasUsed = false
		if u, ok := r.Usage(m.process.ID); ok {
			m.use(r.At, r.CPUs, u)
			w.put(m, r.Second)
		}
		fired = w.evaluate(m, r.At, r.Second-1, fired)
	}
	return busiestFirst(fired)
}

func busiestFirst(fired []Trigger) []Trigger {
	slices.SortStableFunc(fired, func(a, b Trigger) int { return cmp.Compare(b.percent, a.percent) })
	return fired
}

// Late evaluates the processes for which requests arrived. By then all requests of the last second
// have arrived, of which Tick knows only a part: it evaluates requests by the second before it.
func (w *Watch) Late(at time.Duration) []Trigger {
	w.mu.Lock()
	defer w.mu.Unlock()
	var fired []Trigger
	for _, m := range w.dirty {
		fired = w.evaluate(m, at, w.second, fired)
	}
	w.clean()
	return busiestFirst(fired)
}

func (w *Watch) clean() {
	for i, m := range w.dirty {
		m.dirty = false
		w.dirty[i] = nil
	}
	w.dirty = w.dirty[:0]
}

// evaluate appends the policies that hold for a process, by its requests up to a second, and
// that are not silent.
func (w *Watch) evaluate(m *member, at time.Duration, requests int64, fired []Trigger) []Trigger {
	for i := range m.subjects {
		s := &m.subjects[i]
		if !s.gate.open(at) {
			continue
		}
		if causes := m.causes(s, w.second, requests); len(causes) > 0 {
			s.gate.pending = true
			w.stats.Triggers++
			t := Trigger{Policy: s.of.Policy, Process: m.process, Causes: causes, Reported: s.gate.reported}
			if m.hasUsed {
				t.percent, _ = m.used.CPUPercent()
			}
			fired = append(fired, t)
		}
	}
	return fired
}

// Holds reports whether a policy holds for a process, whatever the outcome of its triggers: by the last
// second, and of requests by the one before it, of which all are known.
func (w *Watch) Holds(policy string, id model.ProcessID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, of := w.members[id], w.named(policy)
	if m == nil || of == nil {
		return false
	}
	i := slices.IndexFunc(m.subjects, func(s subject) bool { return s.of == of })
	return i >= 0 && len(m.causes(&m.subjects[i], w.second, w.second-1)) > 0
}

// Started records that what a trigger started has begun at a moment of CLOCK_BOOTTIME.
func (w *Watch) Started(policy string, id model.ProcessID, at time.Duration) {
	w.answer(policy, id, func(g *gate, of *watched) { g.started(at, of.Silence) })
}

// Failed records that a trigger has started nothing, and whether it was reported nevertheless.
func (w *Watch) Failed(policy string, id model.ProcessID, at time.Duration, reported bool) {
	w.answer(policy, id, func(g *gate, _ *watched) { g.failed(at, reported) })
}

func (w *Watch) answer(policy string, id model.ProcessID, apply func(*gate, *watched)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, of := w.members[id], w.named(policy)
	if m == nil || of == nil {
		return // it has ended, or was replaced
	}
	if resting := m.rested(policy); resting != nil {
		apply(resting, of)
	}
	for i := range m.subjects {
		if s := &m.subjects[i]; s.of == of {
			apply(&s.gate, of)
		}
	}
}

// Members is how many processes are watched.
func (w *Watch) Members() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, m := range w.order {
		if len(m.subjects) > 0 {
			n++
		}
	}
	return n
}

// Bytes is the memory that is held.
func (w *Watch) Bytes() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	const entry = 64 // of the map and the list
	subjects, resting, remembered := 0, 0, 0
	for _, p := range w.policies {
		remembered += p.paths.bytes
	}
	for _, m := range w.order {
		subjects += len(m.subjects)
		resting += cap(m.resting)
	}
	return uint64(w.bytes + remembered + len(w.order)*(int(unsafe.Sizeof(member{}))+entry) + subjects*(int(unsafe.Sizeof(subject{}))+3*24) + resting*int(unsafe.Sizeof(rested{})))
}

// Stats returns what was counted.
func (w *Watch) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}
