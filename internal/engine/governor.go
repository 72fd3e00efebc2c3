// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// governorWindow is the time over which the engine's cost is averaged.
	governorWindow = 10 * time.Second
	// governorRest is how long after the start the first window begins: before it
	// programs are loaded, processes scanned and, where there is work to see, the
	// kernel's symbols read, all of it once.
	governorRest = 2 * time.Second
	// A limit is neared at nearShare of it. At calmShare there is capacity for the
	// doubled cost of one step up, with something to spare.
	nearShare, calmShare = 0.9, 0.4
	// leastShare is the share of the limit of CPU time that each kind may take whatever the
	// rest costs: what is over the limit then, a step would not save.
	leastShare = 0.1
	// nearWindows is how many windows in a row the CPU time must near its limit: one
	// alone may be a burst, such as programs that start all at once.
	nearWindows = 2
	// calmWindows is how many calm windows in a row it takes to step back up, maxPatience how many at most where steps back up had to be
	// taken again.
	calmWindows, maxPatience = 3, 24
	// onceWindows is over how many windows work is spread that is done once for each
	// binary: sampling less would not save it.
	onceWindows = 6
)

// governor decides how much each kind must be reduced to keep to the limits. It is a pure function of what it is given.
type governor struct {
	cpuPercent  float64
	memoryBytes uint64
	// window is the time over which the engine's cost is averaged; 0: governorWindow.
	window time.Duration

	levels map[observe.Kind]int
	// steps are those that were taken, in their order: the last is taken back first.
	steps      []observe.Kind
	near, calm int
	// returned is the kind whose step was taken back last, held how many windows ago.
	returned observe.Kind
	held     int
	// patience is how many calm windows it takes for a kind to step back up, where these are more than calmWindows.
	patience map[observe.Kind]int
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

// cost is what is used.
type cost struct {
	// running is the CPU time since the start of what goes on as long as there is something to observe; once of what is done for each
	// binary.
	running, once time.Duration
	// kinds are the parts of those that run now, or have.
	kinds map[observe.Kind]part
}

// part is what one kind uses.
type part struct {
	cpu    time.Duration // of cost.running: its programs, drains and reports
	memory uint64        // that waits for its next reports
	levels int           // by which it can be reduced; 0: it cannot
}

// load is what one kind used in a window.
type load struct {
	percent float64 // of a core
	memory  uint64
	levels  int
}

// decision is that a kind is to run at another level.
type decision struct {
	kind  observe.Kind
	level int
	cause string
}

// begin starts the first window, once all observations have started. Before that, observe changes nothing.
func (g *governor) begin(now time.Time) { g.since = now }

// level is by how many steps a kind is reduced.
func (g *governor) level(kind observe.Kind) int { return g.levels[kind] }

// observe takes what was used so far, and the memory that is held. At the end of a window it may change the level of a kind; nil: it does not.
func (g *governor) observe(now time.Time, used cost, memory uint64) *decision {
	if g.since.IsZero() {
		return nil
	}
	elapsed := now.Sub(g.since)
	if !g.measuring {
		if elapsed >= governorRest {
			g.since, g.used, g.measuring = now, used, true
		}
		return nil
	}
	if elapsed < cmp.Or(g.window, governorWindow) {
		return nil
	}
	copy(g.once[1:], g.once[:])
	g.once[0] = used.once - g.used.once
	spread := time.Duration(0)
	for _, once := range g.once {
		spread += once / onceWindows
	}
	percent := func(d time.Duration) float64 { return 100 * float64(d) / float64(elapsed) }
	kinds := map[observe.Kind]load{}
	for kind, p := range used.kinds {
		kinds[kind] = load{percent: percent(p.cpu - g.used.kinds[kind].cpu), memory: p.memory, levels: p.levels}
	}
	all := percent(used.running - g.used.running + spread)
	g.since, g.used = now, used
	return g.step(all, memory, kinds)
}

// step takes what all used in a window, in per cent of a core, and the parts of the kinds.
func (g *governor) step(percent float64, memory uint64, kinds map[observe.Kind]load) *decision {
	cpuShare, memoryShare := percent/g.cpuPercent, float64(memory)/float64(g.memoryBytes)
	dearest := g.most(kinds, func(l load) float64 { return l.percent })
	reducible := dearest != "" && kinds[dearest].percent >= leastShare*g.cpuPercent
	g.near = following(g.near, cpuShare >= nearShare && reducible)
	g.over = following(g.over, cpuShare > 1 && !reducible)
	last := g.last()
	room := percent+kinds[last].percent < 2*calmShare*g.cpuPercent // for twice the cost of the kind
	little := kinds[last].percent < calmShare*leastShare*g.cpuPercent
	g.calm = following(g.calm, last != "" && memoryShare < calmShare && (room || little))
	g.held++
	if g.returned != "" && g.held > nearWindows {
		delete(g.patience, g.returned) // it has held
		g.returned = ""
	}
	switch {
	case g.near >= nearWindows:
		part := kinds[dearest].percent
		within := max(part-max(percent-g.cpuPercent, 0), leastShare*g.cpuPercent)
		return g.reduce(dearest, kinds[dearest].levels, part/within,
			fmt.Sprintf("the receiver and its probes used %.2f %% of a core, %s %.2f %%; limits::cpu_percent is %v", percent, dearest, part, g.cpuPercent))
	case memoryShare >= nearShare:
		largest := g.most(kinds, func(l load) float64 { return float64(l.memory) + l.percent/100 }) // of equal ones the one that costs more
		if largest == "" {
			return nil
		}
		return g.reduce(largest, kinds[largest].levels, memoryShare,
			fmt.Sprintf("the receiver holds %d MiB; limits::memory_mib is %d", memory>>20, g.memoryBytes>>20))
	case g.calm >= g.patienceOf(last):
		cause := fmt.Sprintf("there is room again: %.2f %% of a core and %d MiB are in use", percent, memory>>20)
		if !room {
			cause = fmt.Sprintf("%s takes %.2f of the %.2f %% of a core that the receiver and its probes use", last, kinds[last].percent, percent)
		}
		return g.takeBack(cause)
	}
	return nil
}

// following counts windows in a row.
func following(n int, holds bool) int {
	if !holds {
		return 0
	}
	return n + 1
}

// most is the kind with the most of something among those that can be reduced further, "" where there is none.
func (g *governor) most(kinds map[observe.Kind]load, of func(load) float64) observe.Kind {
	var most observe.Kind
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if g.levels[kind] >= kinds[kind].levels {
			continue
		}
		if most == "" || of(kinds[kind]) > of(kinds[most]) {
			most = kind
		}
	}
	return most
}

// last is the kind whose step is taken back next, "" where there is none.
func (g *governor) last() observe.Kind {
	if len(g.steps) == 0 {
		return ""
	}
	return g.steps[len(g.steps)-1]
}

// patienceOf is how many calm windows it takes for a kind to step back up.
func (g *governor) patienceOf(kind observe.Kind) int { return cmp.Or(g.patience[kind], calmWindows) }

// reduce takes as many steps as make a kind cheaper by the factor, if each of them halves its cost; at least one and no further than the
// last. A kind whose step was taken back not long ago has to be calm for twice as long the next time: how much it costs without the step
// is not known before.
func (g *governor) reduce(kind observe.Kind, levels int, factor float64, cause string) *decision {
	if g.levels == nil {
		g.levels, g.patience = map[observe.Kind]int{}, map[observe.Kind]int{}
	}
	if kind == g.returned {
		g.patience[kind] = min(2*g.patienceOf(kind), maxPatience)
		g.returned = ""
	}
	steps := 1
	if factor >= 2 {
		steps = int(math.Log2(min(factor, math.Exp2(float64(levels))))) + 1
	}
	for range min(steps, levels-g.levels[kind]) {
		g.levels[kind]++
		g.steps = append(g.steps, kind)
	}
	g.calm = 0
	return &decision{kind, g.levels[kind], cause}
}

// takeBack takes the last step back.
func (g *governor) takeBack(cause string) *decision {
	kind := g.last()
	g.steps = g.steps[:len(g.steps)-1]
	g.levels[kind]--
	g.returned, g.held, g.calm = kind, 0, 0
	return &decision{kind, g.levels[kind], cause}
}

// exceeded is why the limit of CPU time is not kept to, where no kind can be reduced that would save something; else nil.
func (g *governor) exceeded() error {
	if g.over < nearWindows {
		return nil
	}
	return fmt.Errorf("the receiver and its probes use more than limits::cpu_percent, %v %% of a core, and sampling and capturing less would not change that: "+
		"narrow targets, or raise the limit", g.cpuPercent)
}
