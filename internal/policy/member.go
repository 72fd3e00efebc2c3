// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// Usage is what a process has used since it began.
type Usage struct {
	CPU     time.Duration
	Threads int
}

// shortest is the shortest time that a process's use of CPUs is computed for: the kernel
// counts what runs at its ticks, up to 10 ms apart.
const shortest = 250 * time.Millisecond

// member is a process that is watched.
type member struct {
	process *model.Process
	place   int // in Watch.order
	dirty   bool
	// cpu was used until read, of CLOCK_BOOTTIME; before the first reading read is 0.
	cpu, read time.Duration
	// used is what the process used in the last second, if hasUsed.
	used     monitor.Process
	hasUsed  bool
	subjects []subject
	resting  []rested
}

// subject is a process as one policy sees it.
type subject struct {
	of   *watched
	gate gate
	// windows are those of each rule: none of what is the host's, and of requests none
	// before the first one.
	windows [][]window
}

// returns notes that policies may watch a process again: what it has used while none did is of no
// second.
func (m *member) returns() {
	if len(m.subjects) == 0 {
		m.read = 0
	}
}

// use takes what the process has used until now, of cpus CPUs.
func (m *member) use(now time.Duration, cpus int, u Usage) {
	m.used, m.hasUsed = monitor.Process{CPUs: cpus, Threads: u.Threads}, true
	elapsed := now - m.read
	switch {
	case m.read == 0: // nothing to compare with
	case elapsed < shortest, u.CPU < m.cpu:
		// The next reading includes this time, too. CPU time falls where a thread has ended
		// while the process was read, so that it was counted neither among those that run nor
		// among those that have ended.
		return
	default:
		m.used.CPU, m.used.Elapsed = u.CPU-m.cpu, elapsed
	}
	m.cpu, m.read = u.CPU, now
}

// value is the value of the last second, if it is one of a process and there is one.
func (m *member) value(of *monitor.Descriptor) (float64, bool) {
	if of.Process == nil || !m.hasUsed {
		return 0, false
	}
	return of.Process(m.used)
}

// causes are the rules of a policy that hold, those of requests up to another second than
// the rest.
func (m *member) causes(s *subject, last, requests int64) []model.Cause {
	var list []model.Cause
	for i := range s.of.When {
		rule, windows, now := &s.of.When[i], s.windows[i], last
		switch {
		case rule.Monitor.OfHost() && m.process.KernelThread && !s.of.KernelThreads:
			continue
		case rule.Monitor.OfHost():
			windows = s.of.host[i]
		case rule.Monitor.OfRequests():
			now = requests
		}
		for j := range windows {
			if w := &windows[j]; w.marks != nil && w.holds(now, rule.Count) {
				list = append(list, model.Cause{
					Monitor: rule.Monitor.Name, Threshold: rule.Threshold, Value: w.current(now), Path: rule.uri(j),
				})
			}
		}
	}
	return list
}
