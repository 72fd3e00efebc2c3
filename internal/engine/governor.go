// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math"
	"time"
)

const (
	// governorWindow is the time over which the engine's cost is averaged.
	governorWindow = 10 * time.Second
	// governorRest is how long after the start the first window begins: before it
	// programs are loaded, processes scanned and, where there is work to see, the
	// kernel's symbols read, all of it once.
	governorRest = 2 * time.Second
	// maxLevel is the last step: at 64 times the period there is nothing left to save.
	maxLevel = 6
	// A limit is neared at nearShare of it. At calmShare there is room for the
	// doubled cost of one step up, with something to spare.
	nearShare, calmShare = 0.9, 0.4
	// calmWindows is how many calm windows in a row it takes to step back up.
	calmWindows = 3
)

// governor decides how much sampling must be reduced to keep to the limits. It
// is a pure function of what it is told.
type governor struct {
	cpuPercent  float64
	memoryBytes uint64

	level int
	calm  int
	// since is the begin of the window, cost what had been used then. Before the
	// first window since is the start, and measuring is not set.
	since     time.Time
	cost      time.Duration
	measuring bool
}

// begin is told when sampling starts.
func (g *governor) begin(now time.Time) { g.since = now }

// observe is told the CPU time used so far and the memory held. At the end of a
// window it may change the level, and then says why.
func (g *governor) observe(now time.Time, cost time.Duration, memory uint64) (changed bool, cause string) {
	elapsed := now.Sub(g.since)
	if !g.measuring {
		if elapsed >= governorRest {
			g.since, g.cost, g.measuring = now, cost, true
		}
		return false, ""
	}
	if elapsed < governorWindow {
		return false, ""
	}
	percent := 100 * float64(cost-g.cost) / float64(elapsed)
	g.since, g.cost = now, cost
	return g.step(percent, memory)
}

func (g *governor) step(percent float64, memory uint64) (changed bool, cause string) {
	cpuShare := percent / g.cpuPercent
	memoryShare := float64(memory) / float64(g.memoryBytes)
	share := max(cpuShare, memoryShare)
	if share < calmShare {
		g.calm++
	} else {
		g.calm = 0
	}
	switch {
	case cpuShare >= nearShare && g.level < maxLevel:
		g.reduce(cpuShare)
		return true, fmt.Sprintf("the receiver and its probes used %.2f %% of a core; limits::cpu_percent is %v", percent, g.cpuPercent)
	case memoryShare >= nearShare && g.level < maxLevel:
		g.reduce(memoryShare)
		return true, fmt.Sprintf("the receiver holds %d MiB; limits::memory_mib is %d", memory>>20, g.memoryBytes>>20)
	case g.calm >= calmWindows && g.level > 0:
		g.level--
		g.calm = 0
		return true, fmt.Sprintf("there is room again: %.2f %% of a core and %d MiB are in use", percent, memory>>20)
	}
	return false, ""
}

// reduce goes up as many steps as it takes to be within the limit again, if each
// of them halves the cost; at least one and no further than the last.
func (g *governor) reduce(share float64) {
	steps := 1
	if share >= 2 {
		steps = int(math.Log2(min(share, 1<<maxLevel))) + 1
	}
	g.level = min(g.level+steps, maxLevel)
}
