// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
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
	// leastShare is the share of the limit of CPU time that sampling may take whatever the
	// rest costs: what is over the limit then, a step would not save.
	leastShare = 0.1
	// nearWindows is how many windows in a row the CPU time must near its limit: one
	// alone may be a burst, such as programs that start all at once.
	nearWindows = 2
	// calmWindows is how many calm windows in a row it takes to step back up.
	calmWindows = 3
	// onceWindows is over how many windows work is spread that is done once for each
	// binary: sampling less would not save it.
	onceWindows = 6
)

// governor decides how much sampling must be reduced to keep to the limits. It
// is a pure function of what it is told.
type governor struct {
	cpuPercent  float64
	memoryBytes uint64
	// window is the time over which the engine's cost is averaged; 0: governorWindow.
	window time.Duration

	level      int
	near, calm int
	// over is how many windows in a row have used more CPU time than the limit without a step
	// that would save any.
	over int
	// since is the begin of the window, used what had been used then. Before the
	// first window since is the start, and measuring is not set.
	since     time.Time
	used      cost
	measuring bool
	// once is what the last windows used of that kind, the latest at the front.
	once [onceWindows]time.Duration
}

// cost is the CPU time used since the start.
type cost struct {
	// running goes on as long as there are samples; once is done for each binary.
	running, once time.Duration
	// sampling is the part of running that a step halves.
	sampling time.Duration
}

// begin is told when sampling starts.
func (g *governor) begin(now time.Time) { g.since = now }

// observe is told the CPU time used so far and the memory held. At the end of a
// window it may change the level, and then says why.
func (g *governor) observe(now time.Time, used cost, memory uint64) (changed bool, cause string) {
	elapsed := now.Sub(g.since)
	if !g.measuring {
		if elapsed >= governorRest {
			g.since, g.used, g.measuring = now, used, true
		}
		return false, ""
	}
	if elapsed < cmp.Or(g.window, governorWindow) {
		return false, ""
	}
	copy(g.once[1:], g.once[:])
	g.once[0] = used.once - g.used.once
	spread := time.Duration(0)
	for _, once := range g.once {
		spread += once / onceWindows
	}
	percent := 100 * float64(used.running-g.used.running+spread) / float64(elapsed)
	sampling := 100 * float64(used.sampling-g.used.sampling) / float64(elapsed)
	g.since, g.used = now, used
	return g.step(percent, sampling, memory)
}

// step is told per cent of a core: of all, and of the part that is sampling.
func (g *governor) step(percent, sampling float64, memory uint64) (changed bool, cause string) {
	cpuShare, sampled := percent/g.cpuPercent, sampling/g.cpuPercent
	memoryShare := float64(memory) / float64(g.memoryBytes)
	room := cpuShare+sampled < 2*calmShare // for twice the sampling
	if memoryShare < calmShare && (room || sampled < calmShare*leastShare) {
		g.calm++
	} else {
		g.calm = 0
	}
	if cpuShare >= nearShare && sampled >= leastShare {
		g.near++
	} else {
		g.near = 0
	}
	if cpuShare > 1 && (sampled < leastShare || g.level == maxLevel) {
		g.over++
	} else {
		g.over = 0
	}
	switch {
	case g.near >= nearWindows && g.level < maxLevel:
		g.reduce(min(cpuShare, sampled/leastShare))
		return true, fmt.Sprintf("the receiver and its probes used %.2f %% of a core; limits::cpu_percent is %v", percent, g.cpuPercent)
	case memoryShare >= nearShare && g.level < maxLevel:
		g.reduce(memoryShare)
		return true, fmt.Sprintf("the receiver holds %d MiB; limits::memory_mib is %d", memory>>20, g.memoryBytes>>20)
	case g.calm >= calmWindows && g.level > 0:
		g.level--
		g.calm = 0
		if !room {
			return true, fmt.Sprintf("sampling takes %.2f of the %.2f %% of a core that the receiver and its probes use", sampling, percent)
		}
		return true, fmt.Sprintf("there is room again: %.2f %% of a core and %d MiB are in use", percent, memory>>20)
	}
	return false, ""
}

// exceeded tells that the limit of CPU time is not kept to, and cannot be by sampling less.
func (g *governor) exceeded() error {
	if g.over < nearWindows {
		return nil
	}
	return fmt.Errorf("the receiver and its probes use more than limits::cpu_percent, %v %% of a core, and sampling less would not change that: "+
		"narrow targets, or raise the limit", g.cpuPercent)
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
