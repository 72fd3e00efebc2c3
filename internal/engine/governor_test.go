// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
)

const mib = 1 << 20

// alone are the parts of an engine that does nothing but sample.
func alone(percent float64) map[observe.Kind]load {
	return map[observe.Kind]load{oncpu.Name: {percent: percent, levels: observe.SamplingLevels}}
}

// limited is a governor of 2 % of a core and 256 MiB.
func limited() *governor { return &governor{cpuPercent: 2, memoryBytes: 256 * mib} }

func TestGovernor(t *testing.T) {
	type window struct {
		percent float64 // of a core
		memory  uint64
		level   int // expected after it
	}
	for name, windows := range map[string][]window{
		"below the limit":                              {{1.7, 200 * mib, 0}, {1.7, 200 * mib, 0}},
		"one window may be a burst":                    {{20, 0, 0}, {1, 0, 0}, {20, 0, 0}, {1.7, 0, 0}},
		"two in a row are none":                        {{1.8, 0, 0}, {1.8, 0, 1}},
		"one step for each window after them":          {{1.8, 0, 0}, {1.8, 0, 1}, {3.9, 0, 2}, {2, 0, 3}},
		"one more step for each doubling of the limit": {{4, 0, 0}, {4, 0, 2}, {8.1, 0, 5}},
		"three steps at four times the limit":          {{8, 0, 0}, {8, 0, 3}},
		"no further than the last at once":             {{1000, 0, 0}, {1000, 0, 6}, {1000, 0, 6}},
		"memory counts at once":                        {{0.1, 231 * mib, 1}, {0.1, 256 * mib, 2}, {0.1, 512 * mib, 4}},
		"up no further than the last step":             {{3, 0, 0}, {3, 0, 1}, {3, 0, 2}, {3, 0, 3}, {3, 0, 4}, {3, 0, 5}, {3, 0, 6}, {3, 0, 6}},
		"down one step after three calm windows":       {{7, 0, 0}, {7, 0, 2}, {0.7, 0, 2}, {0.7, 0, 2}, {0.7, 0, 1}, {0.7, 0, 1}},
		"three more for the next step":                 {{4, 0, 0}, {4, 0, 2}, {0, 0, 2}, {0, 0, 2}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 0}},
		"in a row":                                     {{2, 0, 0}, {2, 0, 1}, {0, 0, 1}, {0, 0, 1}, {1, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 0}},
		"memory is not calm":                           {{2, 0, 0}, {2, 0, 1}, {0, 128 * mib, 1}, {0, 128 * mib, 1}, {0, 128 * mib, 1}},
		"in between nothing changes":                   {{2, 0, 0}, {2, 0, 1}, {1.7, 0, 1}, {0.9, 0, 1}, {1.7, 0, 1}, {0.9, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			g, now, used := begun(t)
			for i, w := range windows {
				before := g.level(oncpu.Name)
				now = now.Add(governorWindow)
				used += time.Duration(w.percent / 100 * float64(governorWindow))
				decided := g.observe(now, costOfSampling(used), w.memory)
				require.Equal(t, w.level, g.level(oncpu.Name), "window %d", i)
				require.Equal(t, before != w.level, decided != nil, "window %d", i)
				if decided != nil {
					require.NotEmpty(t, decided.cause, "window %d", i)
					require.Equal(t, decision{oncpu.Name, w.level, decided.cause}, *decided, "window %d", i)
				}
			}
		})
	}
}

// costOfSampling is that of an engine that does nothing else.
func costOfSampling(used time.Duration) cost {
	return cost{running: used, kinds: map[observe.Kind]part{oncpu.Name: {cpu: used, levels: observe.SamplingLevels}}}
}

// TestGovernorLeavesAloneWhatCostsLittle holds that sampling is reduced as long as that saves something, and not for what
// costs the rest: programs that start all the time, for one.
func TestGovernorLeavesAloneWhatCostsLittle(t *testing.T) {
	type window struct {
		percent, sampling float64 // of a core; the limit is 2 %
		level             int     // expected after it
	}
	for name, windows := range map[string][]window{
		"less than a tenth of the limit":             {{6, 0.19, 0}, {6, 0.19, 0}, {6, 0.19, 0}},
		"a tenth":                                    {{6, 0.2, 0}, {6, 0.2, 1}, {6, 0.1, 1}},
		"no further than below a tenth":              {{20, 0.9, 0}, {20, 0.9, 3}, {20, 0.11, 3}},
		"as far as the rest needs":                   {{4.5, 4, 0}, {4.5, 4, 2}},
		"back, though the rest is over the limit":    {{6, 3, 0}, {6, 3, 4}, {6, 0.07, 4}, {6, 0.07, 4}, {6, 0.07, 3}},
		"not back where it would be reduced again":   {{6, 3, 0}, {6, 3, 4}, {6, 0.08, 4}, {6, 0.08, 4}, {6, 0.08, 4}, {6, 0.08, 4}},
		"back, though the rest is half of the limit": {{9, 9, 0}, {9, 9, 3}, {1.2, 0.2, 3}, {1.2, 0.2, 3}, {1.2, 0.2, 2}},
		"not back where twice as much is too much":   {{9, 9, 0}, {9, 9, 3}, {1.2, 0.4, 3}, {1.2, 0.4, 3}, {1.2, 0.4, 3}, {1.2, 0.4, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			g := limited()
			for i, w := range windows {
				g.step(w.percent, 0, alone(w.sampling))
				require.Equal(t, w.level, g.level(oncpu.Name), "window %d", i)
			}
		})
	}
}

// TestGovernorReducesWhatCostsMost holds that of several kinds the one is reduced that costs most and can be reduced, and that steps are
// taken back in the reverse order.
func TestGovernorReducesWhatCostsMost(t *testing.T) {
	g := limited()
	kinds := map[observe.Kind]load{
		oncpu.Name: {percent: 0.4, levels: 6}, offcpu.Name: {percent: 0.1, levels: 6}, network.Name: {percent: 1.5, levels: 1}, network.MonitorsName: {percent: 4},
	}
	window := func(percent float64) map[observe.Kind]int {
		g.step(percent, 0, kinds)
		return maps.Clone(g.levels)
	}
	require.Nil(t, window(6))
	require.Equal(t, map[observe.Kind]int{network.Name: 1}, window(6), "monitors cost more and cannot be reduced")
	require.Equal(t, map[observe.Kind]int{network.Name: 1, oncpu.Name: 2}, window(6), "network is at its last level")
	kinds[oncpu.Name] = load{percent: 0.1, levels: 6}
	require.Equal(t, map[observe.Kind]int{network.Name: 1, oncpu.Name: 2}, window(6), "both kinds that are left take less than a tenth of the limit")
	require.NoError(t, g.exceeded())
	window(6)
	require.Error(t, g.exceeded())
	clear(kinds)
	var back []observe.Kind
	for range 4 * calmWindows {
		if d := g.step(0.1, 0, kinds); d != nil {
			back = append(back, d.kind)
		}
	}
	require.Equal(t, []observe.Kind{oncpu.Name, oncpu.Name, network.Name}, back)
	require.Equal(t, map[observe.Kind]int{network.Name: 0, oncpu.Name: 0}, g.levels)
}

// TestGovernorReducesWhatHoldsMost holds the same of memory.
func TestGovernorReducesWhatHoldsMost(t *testing.T) {
	g := limited()
	kinds := map[observe.Kind]load{
		oncpu.Name: {percent: 1, memory: 10 * mib, levels: 6}, network.Name: {percent: 0.1, memory: 90 * mib, levels: 6},
	}
	d := g.step(1.1, 240*mib, kinds)
	require.Equal(t, decision{network.Name, 1, "the receiver holds 240 MiB; limits::memory_mib is 256"}, *d)
	kinds[network.Name] = load{levels: 6}
	kinds[oncpu.Name] = load{percent: 1, levels: 6}
	require.Equal(t, oncpu.Name, g.step(1.1, 240*mib, kinds).kind, "of kinds that hold as much the dearer one")
	require.Nil(t, g.step(1.1, 240*mib, nil), "nothing can be reduced")
}

// answering is a kind whose cost answers to its level: what steps halve, to nothing at the last one where it ends, and what they leave.
type answering struct {
	halved, left float64
	ends         bool
	levels       int
}

func (a answering) at(level int) load {
	halved := a.halved / float64(int(1)<<level)
	if a.ends && level == a.levels {
		halved = 0
	}
	return load{percent: halved + a.left, levels: a.levels}
}

// TestGovernorSettles holds that under a steady load levels settle within the limit where that can be, and that all is as configured once
// the load has ended. What a last step that ends all costs without it is not known: it is tried, ever less often.
func TestGovernorSettles(t *testing.T) {
	const hour = 360 // windows
	for name, c := range map[string]struct {
		fixed  float64
		kinds  map[observe.Kind]answering
		levels map[observe.Kind]int // in the end
		tries  int                  // at most, in an hour
		within bool                 // the limit, in the end
	}{
		"one kind": {0.1, map[observe.Kind]answering{oncpu.Name: {halved: 10, levels: 6}}, map[observe.Kind]int{oncpu.Name: 3}, 0, true},
		"one of two": {0.1, map[observe.Kind]answering{
			oncpu.Name: {halved: 0.4, levels: 6}, network.Name: {halved: 10, levels: 6, ends: true},
		}, map[observe.Kind]int{network.Name: 3}, 0, true},
		"both": {0.5, map[observe.Kind]answering{
			oncpu.Name: {halved: 6, levels: 6}, network.Name: {halved: 20, left: 0.3, levels: 6, ends: true},
		}, map[observe.Kind]int{oncpu.Name: 3, network.Name: 6}, 0, true},
		"what cannot be kept": {5, map[observe.Kind]answering{oncpu.Name: {halved: 1, levels: 6}}, map[observe.Kind]int{oncpu.Name: 3}, 0, false},
		"what costs little":   {5, map[observe.Kind]answering{oncpu.Name: {halved: 0.1, levels: 6}}, nil, 0, false},
		"a last step that ends all": {0.1, map[observe.Kind]answering{
			network.Name: {halved: 1000, levels: 6, ends: true},
		}, map[observe.Kind]int{network.Name: 6}, 2 + hour/maxPatience, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := limited()
			levels := func() map[observe.Kind]int {
				reduced := map[observe.Kind]int{}
				for kind, level := range g.levels {
					if level > 0 {
						reduced[kind] = level
					}
				}
				return reduced
			}
			window := func() (percent float64, d *decision) {
				percent = c.fixed
				kinds := map[observe.Kind]load{}
				for kind, a := range c.kinds {
					kinds[kind] = a.at(g.level(kind))
					percent += kinds[kind].percent
				}
				return percent, g.step(percent, 0, kinds)
			}
			for range 10 {
				window()
			}
			tries, over := 0, 0
			for range hour {
				percent, d := window()
				if d != nil {
					tries++
				}
				if percent > g.cpuPercent {
					over++
				}
			}
			require.LessOrEqual(t, tries, 2*c.tries)
			if c.within {
				require.LessOrEqual(t, over, nearWindows*c.tries)
			} else {
				require.Equal(t, hour, over)
				require.Error(t, g.exceeded())
			}
			for range maxPatience { // an attempt may be under way
				if c.tries > 0 && g.level(network.Name) != c.levels[network.Name] {
					window()
				}
			}
			if c.levels == nil {
				c.levels = map[observe.Kind]int{}
			}
			require.Equal(t, c.levels, levels())

			c.fixed = 0.1
			for kind, a := range c.kinds {
				c.kinds[kind] = answering{levels: a.levels}
			}
			for range maxPatience + 12*calmWindows {
				window()
			}
			require.Empty(t, levels(), "the load has ended")
			require.NoError(t, g.exceeded())
		})
	}
}

// begun is a governor whose first window begins now, after a start that cost one and a half seconds of CPU.
func begun(t *testing.T) (*governor, time.Time, time.Duration) {
	t.Helper()
	g := limited()
	now, used := time.Unix(1000, 0), time.Duration(0)
	g.begin(now)
	for now.Before(time.Unix(1000, 0).Add(governorRest)) {
		now, used = now.Add(500*time.Millisecond), used+375*time.Millisecond
		require.Nil(t, g.observe(now, costOfSampling(used), 300*mib))
	}
	return g, now, used
}

func TestGovernorStepsTwentyTwoSecondsAfterTheStart(t *testing.T) {
	g := limited()
	start := time.Unix(1000, 0)
	g.begin(start)
	for second := range 22 {
		require.Nil(t, g.observe(start.Add(time.Duration(second)*time.Second), costOfSampling(time.Duration(second)*100*time.Millisecond), 0), "second %d", second)
	}
	require.Equal(t, &decision{
		oncpu.Name, 3, "the receiver and its probes used 10.00 % of a core, on_cpu 10.00 %; limits::cpu_percent is 2",
	}, g.observe(start.Add(22*time.Second), costOfSampling(2200*time.Millisecond), 0), "10 % are five times the limit")
}

func TestGovernorAveragesOverTheWindow(t *testing.T) {
	g, now, used := begun(t)
	for range nearWindows {
		used += 200 * time.Millisecond
		for range 9 { // 20 % in the first second, which is no window
			now = now.Add(time.Second)
			require.Nil(t, g.observe(now, costOfSampling(used), 0))
		}
		now = now.Add(time.Second)
		g.observe(now, costOfSampling(used), 0)
	}
	require.Equal(t, 1, g.level(oncpu.Name))
}

// TestGovernorSpreadsWhatIsDoneOnce holds that the tables of programs that start count as what they cost in a minute.
func TestGovernorSpreadsWhatIsDoneOnce(t *testing.T) {
	for seconds, reduced := range map[float64]bool{0.9: false, 1: true} { // of 0.96 s, 90 % of 2 % of a minute less what sampling takes
		g, now, used := begun(t)
		for range onceWindows {
			now, used = now.Add(governorWindow), used+20*time.Millisecond
			c := costOfSampling(used)
			c.once = time.Duration(seconds * float64(time.Second))
			g.observe(now, c, 0)
		}
		require.Equal(t, reduced, g.level(oncpu.Name) > 0, "%v s", seconds)
	}
}

func TestGovernorCauses(t *testing.T) {
	g := &governor{cpuPercent: 0.5, memoryBytes: 100 * mib}
	require.Nil(t, g.step(0.46, 3*mib, alone(0.44)))
	require.Equal(t, "the receiver and its probes used 0.46 % of a core, on_cpu 0.44 %; limits::cpu_percent is 0.5", g.step(0.46, 99*mib, alone(0.44)).cause)
	require.Equal(t, "the receiver holds 99 MiB; limits::memory_mib is 100", g.step(0.1, 99*mib, alone(0.1)).cause)
	for range calmWindows - 1 {
		require.Nil(t, g.step(0.1, 3*mib, alone(0.1)))
	}
	require.Equal(t, "there is room again: 0.10 % of a core and 3 MiB are in use", g.step(0.1, 3*mib, alone(0.1)).cause)
	for range calmWindows - 1 {
		require.Nil(t, g.step(0.46, 3*mib, alone(0.01)))
	}
	require.Equal(t, "on_cpu takes 0.01 of the 0.46 % of a core that the receiver and its probes use", g.step(0.46, 3*mib, alone(0.01)).cause)
}

// TestGovernorReportsALimitThatItCannotKeep holds that CPU time over the limit is reported when it is for other things than sampling, or when
// all steps are taken, and as long as it lasts.
func TestGovernorReportsALimitThatItCannotKeep(t *testing.T) {
	g := limited()
	for i, w := range []struct {
		percent, sampling float64
		level             int
		exceeded          bool
	}{
		{6, 0.1, 0, false}, {6, 0.1, 0, true}, {6, 0.1, 0, true}, {2, 0.1, 0, false},
		{300, 290, 0, false}, {300, 290, 6, false}, {6, 5, 6, false}, {6, 5, 6, true}, {1.9, 1.8, 6, false},
	} {
		g.step(w.percent, 0, alone(w.sampling))
		require.Equal(t, w.level, g.level(oncpu.Name), "window %d", i)
		require.Equal(t, w.exceeded, g.exceeded() != nil, "window %d", i)
	}
	g.step(6, 0, alone(0.1))
	g.step(6, 0, alone(0.1))
	require.EqualError(t, g.exceeded(), "the receiver and its probes use more than limits::cpu_percent, 2 % of a core, and sampling and capturing less would not "+
		"change that: narrow targets, or raise the limit")
}
