// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// window is what the governor is told at the end of one window: per cent of a core and bytes.
type window struct {
	percent float64
	memory  uint64
	level   int // expected after it
}

const mib = 1 << 20

func TestGovernor(t *testing.T) {
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
				before := g.level
				now = now.Add(governorWindow)
				used += time.Duration(w.percent / 100 * float64(governorWindow))
				changed, cause := g.observe(now, costOfSampling(used), w.memory)
				require.Equal(t, w.level, g.level, "window %d", i)
				require.Equal(t, before != g.level, changed, "window %d", i)
				require.Equal(t, changed, cause != "", "window %d", i)
			}
		})
	}
}

// costOfSampling is that of an engine that does nothing else.
func costOfSampling(used time.Duration) cost { return cost{running: used, sampling: used} }

// TestGovernorLeavesSamplingAloneThatCostsLittle holds that sampling is reduced as long as that saves something, and not for what
// costs the rest: programs that start all the time, for one.
func TestGovernorLeavesSamplingAloneThatCostsLittle(t *testing.T) {
	type window struct {
		percent, sampling float64 // of a core; the limit is 2 %
		level             int     // expected after it
	}
	for name, windows := range map[string][]window{
		"less than a tenth of the limit":             {{6, 0.19, 0}, {6, 0.19, 0}, {6, 0.19, 0}},
		"a tenth":                                    {{6, 0.2, 0}, {6, 0.2, 1}, {6, 0.1, 1}},
		"no further than below a tenth":              {{20, 0.9, 0}, {20, 0.9, 3}, {20, 0.11, 3}},
		"no further than the limit":                  {{4.5, 4, 0}, {4.5, 4, 2}},
		"back, though the rest is over the limit":    {{6, 3, 0}, {6, 3, 2}, {6, 0.07, 2}, {6, 0.07, 2}, {6, 0.07, 1}},
		"not back where it would be reduced again":   {{6, 3, 0}, {6, 3, 2}, {6, 0.08, 2}, {6, 0.08, 2}, {6, 0.08, 2}, {6, 0.08, 2}},
		"back, though the rest is half of the limit": {{9, 9, 0}, {9, 9, 3}, {1.2, 0.2, 3}, {1.2, 0.2, 3}, {1.2, 0.2, 2}},
		"not back where twice as much is too much":   {{9, 9, 0}, {9, 9, 3}, {1.2, 0.4, 3}, {1.2, 0.4, 3}, {1.2, 0.4, 3}, {1.2, 0.4, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			g := governor{cpuPercent: 2, memoryBytes: 256 * mib}
			for i, w := range windows {
				g.step(w.percent, w.sampling, 0)
				require.Equal(t, w.level, g.level, "window %d", i)
			}
		})
	}
}

// begun is a governor whose first window begins now, after a start that cost one and a half seconds of CPU.
func begun(t *testing.T) (*governor, time.Time, time.Duration) {
	t.Helper()
	g := &governor{cpuPercent: 2, memoryBytes: 256 * mib}
	now, used := time.Unix(1000, 0), time.Duration(0)
	g.begin(now)
	for now.Before(time.Unix(1000, 0).Add(governorRest)) {
		now, used = now.Add(500*time.Millisecond), used+375*time.Millisecond
		changed, cause := g.observe(now, costOfSampling(used), 300*mib)
		require.False(t, changed)
		require.Empty(t, cause)
	}
	return g, now, used
}

func TestGovernorStepsTwentyTwoSecondsAfterTheStart(t *testing.T) {
	g := governor{cpuPercent: 2, memoryBytes: 256 * mib}
	start := time.Unix(1000, 0)
	g.begin(start)
	for second := range 22 {
		changed, _ := g.observe(start.Add(time.Duration(second)*time.Second), costOfSampling(time.Duration(second)*100*time.Millisecond), 0)
		require.False(t, changed, "second %d", second)
	}
	changed, cause := g.observe(start.Add(22*time.Second), costOfSampling(2200*time.Millisecond), 0)
	require.True(t, changed)
	require.Equal(t, 3, g.level, "10 % are five times the limit")
	require.Equal(t, "the receiver and its probes used 10.00 % of a core; limits::cpu_percent is 2", cause)
}

func TestGovernorAveragesOverTheWindow(t *testing.T) {
	g, now, used := begun(t)
	for range nearWindows {
		used += 200 * time.Millisecond
		for range 9 { // 20 % in the first second, which is no window
			now = now.Add(time.Second)
			changed, _ := g.observe(now, costOfSampling(used), 0)
			require.False(t, changed)
		}
		now = now.Add(time.Second)
		g.observe(now, costOfSampling(used), 0)
	}
	require.Equal(t, 1, g.level)
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
		require.Equal(t, reduced, g.level > 0, "%v s", seconds)
	}
}

func TestGovernorCauses(t *testing.T) {
	g := governor{cpuPercent: 0.5, memoryBytes: 100 * mib}
	changed, _ := g.step(0.46, 0.46, 3*mib)
	require.False(t, changed)
	_, cause := g.step(0.46, 0.46, 99*mib)
	require.Equal(t, "the receiver and its probes used 0.46 % of a core; limits::cpu_percent is 0.5", cause)
	_, cause = g.step(0.1, 0.1, 99*mib)
	require.Equal(t, "the receiver holds 99 MiB; limits::memory_mib is 100", cause)
	for range calmWindows - 1 {
		changed, _ = g.step(0.1, 0.1, 3*mib)
		require.False(t, changed)
	}
	_, cause = g.step(0.1, 0.1, 3*mib)
	require.Equal(t, "there is room again: 0.10 % of a core and 3 MiB are in use", cause)
	g.level = 1
	for range calmWindows {
		_, cause = g.step(0.46, 0.01, 3*mib)
	}
	require.Equal(t, "sampling takes 0.01 of the 0.46 % of a core that the receiver and its probes use", cause)
}

// TestGovernorTellsOfALimitThatItCannotKeep holds that CPU time over the limit is told when it is for other things than sampling, or when
// all steps are taken, and as long as it lasts.
func TestGovernorTellsOfALimitThatItCannotKeep(t *testing.T) {
	g := governor{cpuPercent: 2, memoryBytes: 256 * mib}
	for i, w := range []struct {
		percent, sampling float64
		level             int
		exceeded          bool
	}{
		{6, 0.1, 0, false}, {6, 0.1, 0, true}, {6, 0.1, 0, true}, {2, 0.1, 0, false},
		{300, 290, 0, false}, {300, 290, maxLevel, false}, {6, 5, maxLevel, false}, {6, 5, maxLevel, true}, {1.9, 1.8, maxLevel, false},
	} {
		g.step(w.percent, w.sampling, 0)
		require.Equal(t, w.level, g.level, "window %d", i)
		require.Equal(t, w.exceeded, g.exceeded() != nil, "window %d", i)
	}
	g.step(6, 0.1, 0)
	g.step(6, 0.1, 0)
	require.EqualError(t, g.exceeded(), "the receiver and its probes use more than limits::cpu_percent, 2 % of a core, and sampling less would not change that: "+
		"narrow targets, or raise the limit")
}
