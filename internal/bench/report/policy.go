// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"time"
)

// Watched is what policies cost that watch so many processes.
type Watched struct {
	Processes, Rules int
	// Forks is how many others come in a second, and go at once; fewer where the host is busy.
	Forks int
	// With has policies, Without the same engine without any.
	With, Without Watch
}

// Watch is an engine that observes nothing.
type Watch struct {
	InScope int
	// CPU is its own work over Elapsed, the time of the pass over the host's tasks included.
	CPU, Elapsed time.Duration
	// Memory is that of the process and of its maps beyond what was there before, in bytes.
	Memory uint64
}

// percent is the CPU time in per cent of one core.
func (w Watch) percent() float64 {
	if w.Elapsed == 0 {
		return 0
	}
	return 100 * float64(w.CPU) / float64(w.Elapsed)
}

// Percent is what policies add, in per cent of one core.
func (w *Watched) Percent() float64 { return max(w.With.percent()-w.Without.percent(), 0) }

// Memory is what policies add, in bytes.
func (w *Watched) Memory() uint64 { return max(w.With.Memory, w.Without.Memory) - w.Without.Memory }

func (r *Report) printWatched(w io.Writer) {
	if len(r.Watched) == 0 {
		return
	}
	fmt.Fprintf(w, "\nPolicies that watch processes which sleep, one look each second\n")
	fmt.Fprintf(w, "  processes\tthat come and go, a second\trules\tCPU of one core, without policies and with\tadded\tmemory added\n")
	for i := range r.Watched {
		m := &r.Watched[i]
		fmt.Fprintf(w, "  %d\t%d\t%d\t%.3f %%, %.3f %%\t%.3f %%\t%s\n", m.Processes, m.Forks, m.Rules, m.Without.percent(), m.With.percent(), m.Percent(), mib(m.Memory()))
	}
}

// The targets of policies, by the number of processes.
const (
	maxWatchMemory = 20_000_000
	watchFew       = 1000
)

var maxWatchPercent = map[int]float64{watchFew: 0.5, 10000: 5}

func (r *Report) judgeWatched(add addTarget) {
	for i := range r.Watched {
		m := &r.Watched[i]
		if m.Forks > 0 {
			continue // no target was set for it
		}
		name := fmt.Sprintf("%d processes watched by %d rules each", m.Processes, m.Rules)
		complete := m.With.InScope >= m.Processes
		limit := maxWatchPercent[m.Processes]
		add(name+", CPU of one core", fmt.Sprintf("%.1f %%", limit), fmt.Sprintf("%.3f %%", m.Percent()), complete, m.Percent() <= limit)
		if m.Processes == watchFew {
			add(name+", memory", mib(maxWatchMemory), mib(m.Memory()), complete, m.Memory() <= maxWatchMemory)
		}
	}
	if len(r.Watched) == 0 {
		add("processes watched by policies, CPU and memory", "", "", false, false)
	}
}
