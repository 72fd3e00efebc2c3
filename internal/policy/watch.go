// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
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
	dirty    []*member // of whom something was told since the last look
	second   int64     // the last that has ended
	read     time.Duration
	host     map[Monitor]float64 // of that second
	// requestWindows, gaugeWindows and bytes are what windows of processes take.
	requestWindows, gaugeWindows, bytes int
	// inherited are those that another watch has watched, until they are added here, or
	// for so long that they have ended.
	inherited      map[model.ProcessID]*member
	inheritedUntil int64
	// matches is what was done since the last look to find out which rules paths count for; key
	// is room to look them up.
	matches int
	key     []byte
	stats   Stats
}

// Stats counts since the start.
type Stats struct {
	// Late are requests that were told of too long after they had ended, Crowded those
	// for which there was no room for another window, and values of seconds likewise.
	Late, Crowded uint64
	// Unmatched are requests of which rules were not asked whether they count, since more
	// different paths were asked for in a second than may be.
	Unmatched uint64
	// Missed are seconds at whose end nobody looked.
	Missed uint64
	// Triggers are how often policies have fired, again where a trigger has started nothing included.
	Triggers uint64
}

// watched is a policy with the windows of what is the host's, by rule.
type watched struct {
	Policy
	host  [][]window
	paths paths
}

// Trigger says that a policy holds for a process.
type Trigger struct {
	Policy  Policy
	Process *model.Process
	// Causes are all rules of the policy that hold, one at least.
	Causes []model.Cause
	// Told says that somebody was told that it holds, though nothing has started since.
	Told bool

	percent float64 // of the CPUs, that the process used
}

// New watches by policies.
func New(policies []Policy) *Watch {
	w := &Watch{members: map[model.ProcessID]*member{}}
	w.policies = w.takeOver(policies)
	return w
}

// young is how long before the last reading a process may have begun for all of its time
// to be told of when it is read first: it was not there to be read, or nobody knew of it.
const young = 10 * time.Second

// beginning is when a process began, by CLOCK_BOOTTIME.
func beginning(id model.ProcessID) time.Duration {
	const tick = time.Second / model.TicksPerSecond
	return time.Duration(id.StartTicks) * tick
}

// Add watches a process by the policies that match it, and no more by others, whose silence goes
// on nevertheless. Of one that is young, all is known that it has used.
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

// Unread tells that what a process uses is not read before it is added again: what it uses until
// then is of no second.
func (w *Watch) Unread(id model.ProcessID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.members[id]; m != nil {
		m.read = 0
	}
}

// leave forgets a process that no policy matches, nor keeps silent about.
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
			continue // by policies that were replaced meanwhile
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
			if s.windows[k] == nil && s.of.When[k].Monitor.ofProcesses() {
				w.makeGauge(&s, k)
			}
		}
		m.subjects = append(m.subjects, s)
	}
	w.giveBack(before)
	w.rest(m, before)
}

// makeGauge makes the window of a rule about what a process uses, if there is room.
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

// giveBack notes that windows are no more.
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

// Remove watches a process no more.
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
	Host map[Monitor]float64
	// Usage is what a process has used; false where nobody knows. It must not call the
	// Watch.
	Usage func(model.ProcessID) (Usage, bool)
}

// Tick takes what was read at the end of a second, and returns which policies hold, for those first that
// use the CPUs most: of what is the host's they are the likeliest cause, and there may be no room for
// all. A second that was told of is not told of again.
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
		m.hasThreads, m.hasPercent = false, false
		if u, ok := r.Usage(m.process.ID); ok {
			m.use(r.At, r.CPUs, u)
			w.put(m, r.Second)
		}
		fired = w.look(m, r.At, r.Second-1, fired)
	}
	return busiestFirst(fired)
}

func busiestFirst(fired []Trigger) []Trigger {
	slices.SortStableFunc(fired, func(a, b Trigger) int { return cmp.Compare(b.percent, a.percent) })
	return fired
}

// Late looks at those of whom requests were told: those of the last second have been by
// then, of which a Tick knows a part, and looks at the one before it.
func (w *Watch) Late(at time.Duration) []Trigger {
	w.mu.Lock()
	defer w.mu.Unlock()
	var fired []Trigger
	for _, m := range w.dirty {
		fired = w.look(m, at, w.second, fired)
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

// look appends the policies that hold for a process, by its requests up to a second, and
// that are not silent.
func (w *Watch) look(m *member, at time.Duration, requests int64, fired []Trigger) []Trigger {
	for i := range m.subjects {
		s := &m.subjects[i]
		if !s.gate.open(at) {
			continue
		}
		if causes := m.causes(s, w.second, requests); len(causes) > 0 {
			s.gate.asked = true
			w.stats.Triggers++
			t := Trigger{Policy: s.of.Policy, Process: m.process, Causes: causes, Told: s.gate.told}
			if m.hasPercent {
				t.percent = m.percent
			}
			fired = append(fired, t)
		}
	}
	return fired
}

// Holds tells whether a policy holds for a process, whatever became of its triggers: by the last
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

// Request is one that a process has answered.
type Request struct {
	// Second is the one in which it ended.
	Second int64
	// Path is without query; Begins as of [Requests].
	Path   []byte
	Begins bool
	// Status is 0 where it is not known. Took is how long it took, where Timed says so.
	Status int
	Took   time.Duration
	Timed  bool
}

// Request takes a request that a process has answered.
func (w *Watch) Request(id model.ProcessID, r Request) {
	all := Requests{Second: r.Second, Path: r.Path, Begins: r.Begins}
	if r.Status != 0 {
		all.Known = 1
	}
	if r.Status >= 500 && r.Status <= 599 {
		all.Errors = 1
	}
	if r.Timed {
		all.Timed, all.Took = 1, r.Took
	}
	w.Requests(id, all)
}

// Requests are what a process has answered in a second.
type Requests struct {
	Second int64
	// Path is that of all of them, without query; where Begins says so, how their paths begin, as of
	// [Wanted].Begun. It is empty where it is none that a rule names.
	Path   []byte
	Begins bool
	// Known are those whose status is known, Errors of them those with 500 to 599.
	Known, Errors uint64
	// Timed are those of which it is known how long they took, Took together.
	Timed uint64
	Took  time.Duration
}

// Requests takes what a process has answered in a second; it adds to what is known of that second.
func (w *Watch) Requests(id model.ProcessID, r Requests) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.members[id]
	if m == nil {
		return
	}
	if w.second != 0 && r.Second > w.second+LateBy { // nobody has looked for long, or it is by another clock
		w.stats.Late += max(r.Known, r.Timed)
		return
	}
	w.key = append(append(w.key[:0], begun(r.Begins)), r.Path...)
	for i := range m.subjects {
		s := &m.subjects[i]
		found, matches, ok := s.of.paths.find(s.of.When, w.key, r.Path, r.Begins, maxMatches-w.matches)
		w.matches += matches
		if !ok {
			w.stats.Unmatched += max(r.Known, r.Timed)
		}
		for j, place := range found {
			if place == noPlace {
				continue
			}
			if sum, n := r.value(s.of.When[j].Monitor); n > 0 {
				w.count(s, j, int(place), &r, sum, n)
			}
		}
	}
	if !m.dirty {
		m.dirty = true
		w.dirty = append(w.dirty, m)
	}
}

// begun tells paths from beginnings of paths where places are remembered.
func begun(begins bool) byte {
	if begins {
		return '^'
	}
	return '='
}

// value is what requests add to the sum that a monitor's value is the mean of, and how many do.
func (r *Requests) value(monitor Monitor) (sum float64, n uint64) {
	switch monitor {
	case HTTPErrorRate:
		return 100 * float64(r.Errors), r.Known
	case HTTPAvgResponseTime:
		return float64(r.Took) / float64(time.Millisecond), r.Timed
	}
	return 0, 0
}

// count adds requests to the window of a rule that they count for.
func (w *Watch) count(s *subject, rule, place int, r *Requests, sum float64, n uint64) {
	of := &s.of.When[rule]
	if s.windows[rule] == nil {
		s.windows[rule] = make([]window, of.windows())
	}
	to := &s.windows[rule][place]
	if to.marks == nil {
		if w.requestWindows >= maxRequestWindows {
			w.stats.Crowded += n
			return
		}
		*to = makeWindow(of.Threshold, of.Period, LateBy)
		w.requestWindows++
		w.bytes += to.bytes()
	}
	if !to.add(r.Second, sum, float64(n)) {
		w.stats.Late += n
	}
}

// Started tells that what a trigger asked for has begun at a moment of CLOCK_BOOTTIME.
func (w *Watch) Started(policy string, id model.ProcessID, at time.Duration) {
	w.answer(policy, id, func(g *gate, of *watched) { g.started(at, of.Silence) })
}

// Failed tells that it did not, and whether somebody was told of the trigger all the same.
func (w *Watch) Failed(policy string, id model.ProcessID, at time.Duration, told bool) {
	w.answer(policy, id, func(g *gate, _ *watched) { g.failed(at, told) })
}

func (w *Watch) answer(policy string, id model.ProcessID, tell func(*gate, *watched)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, of := w.members[id], w.named(policy)
	if m == nil || of == nil {
		return // it has ended, or was replaced
	}
	if resting := m.rested(policy); resting != nil {
		tell(resting, of)
	}
	for i := range m.subjects {
		if s := &m.subjects[i]; s.of == of {
			tell(&s.gate, of)
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
