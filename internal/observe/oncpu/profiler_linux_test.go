// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// emulated says that the kernel runs on emulated CPUs, which are slow.
var emulated = guest.Running()

// sampling is a profiler that runs and what it found.
type sampling struct {
	*Profiler
	t        *testing.T
	profiles []*model.Profile
}

func config(period time.Duration) Config {
	return Config{
		Options:  Options{Period: period, Options: stacks.DefaultOptions()},
		MapBytes: 32 << 20, SampleBytes: 64 << 20, SysRoot: "/sys", ProcRoot: "/proc",
	}
}

func sample(t *testing.T, config Config) *sampling {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	loader := kernel.NewLoader()
	tracker, err := lifecycle.Start(loader, 1<<17)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tracker.Close()) })
	host := observetest.NewHost()
	host.Everybody = true
	p, err := Start(config, loader, tracker.SharedMaps(), host)
	require.NoError(t, err)
	s := &sampling{Profiler: p, t: t}
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.Begin())
	return s
}

// run drains until a program has ended and returns its pid and the CPU time that it printed.
func (s *sampling) run(between func(), path string, args ...string) (uint32, time.Duration) {
	s.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout = &out
	require.NoError(s.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			require.NoError(s.t, err)
			s.drain()
			ns, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
			require.NoError(s.t, err)
			return uint32(cmd.Process.Pid), time.Duration(ns)
		case <-time.After(s.DrainInterval()):
			s.drain()
			if between != nil {
				between()
			}
		}
	}
}

// until repeats a look for a minute at most. What it looks for may take long: a timer misses its periods while its CPU stands still.
func (s *sampling) until(what string, look func() bool) {
	s.t.Helper()
	for began := time.Now(); !look(); {
		require.Less(s.t, time.Since(began), time.Minute, what)
	}
}

// runUntil runs a program until what was found of it suffices, drains and returns its pid.
func (s *sampling) runUntil(enough func(samples []model.Sample) bool, path string, args ...string) uint32 {
	s.t.Helper()
	cmd := exec.Command(path, args...)
	require.NoError(s.t, cmd.Start())
	pid := uint32(cmd.Process.Pid)
	s.until("enough samples", func() bool {
		time.Sleep(s.DrainInterval())
		s.drain()
		samples, _ := s.samples(pid)
		return enough(samples)
	})
	require.NoError(s.t, cmd.Process.Kill())
	require.Error(s.t, cmd.Wait(), "it was killed")
	return pid
}

// forAnHour is a time of CPU that no test waits for, in milliseconds.
const forAnHour = "3600000"

func (s *sampling) drain() {
	s.t.Helper()
	require.NoError(s.t, s.Drain())
}

// samples returns all samples of a process and how much CPU time they stand for.
func (s *sampling) samples(pid uint32) (samples []model.Sample, total time.Duration) {
	s.profiles = append(s.profiles, s.Report(time.Now()).Profiles...)
	for _, p := range s.profiles {
		if p.Process.ID.PID != pid {
			continue
		}
		for _, one := range p.Samples {
			samples = append(samples, one)
			total += time.Duration(one.Values[0] * p.Period)
		}
	}
	return samples, total
}

func lost(losses []observe.Loss) map[string]uint64 {
	counts := map[string]uint64{}
	for _, l := range losses {
		counts[l.Reason] = l.Count
	}
	return counts
}

// TestNothingIsLost checks that every run of the program is a sample that was delivered or counted as lost, however often
// the tables are turned meanwhile.
func TestNothingIsLost(t *testing.T) {
	for name, mapBytes := range map[string]uint64{"large tables": 32 << 20, "tables that fill": 0} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("loading BPF programs needs root")
			}
			stats, err := kernel.EnableRunStats()
			require.NoError(t, err)
			defer stats.Close()
			c := config(time.Millisecond)
			c.MapBytes = mapBytes
			s := sample(t, c)
			stop := make(chan struct{})
			for range runtime.NumCPU() {
				go func() { burn(stop) }()
			}
			fill := 0.0
			if mapBytes > 0 {
				for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
					s.drain()
					fill = max(fill, s.Fill())
					time.Sleep(3 * time.Millisecond)
				}
			} else {
				s.until("a table fills", func() bool {
					time.Sleep(2 * time.Second)
					s.drain()
					fill = max(fill, s.Fill())
					return fill > 0.9 && lost(s.Losses())["map_full"] > 0
				})
			}
			close(stop)
			require.NoError(t, s.events.Close())
			s.drain()
			fill = max(fill, s.Fill())
			s.drain() // both tables
			costs, err := s.Costs()
			require.NoError(t, err)
			costs = slices.DeleteFunc(costs, func(c observe.ProgramCost) bool { return c.Program != bindings.OnCPUProgSample })
			require.Len(t, costs, 1)

			delivered := uint64(0)
			for _, p := range s.Report(time.Now()).Profiles {
				for _, one := range p.Samples {
					delivered += uint64(one.Values[0])
				}
			}
			losses := lost(s.Losses())
			t.Logf("%d runs, %d delivered, losses %v, %s per run", costs[0].Runs, delivered, losses, costs[0].Time/time.Duration(costs[0].Runs))
			require.Equal(t, costs[0].Runs, delivered+losses["map_full"]+losses["no_table"]+losses["interval_full"])
			require.Equal(t, costs[0].Runs, s.Samples())
			require.Positive(t, delivered)
			require.Zero(t, losses["no_table"])
			require.LessOrEqual(t, fill, 1.0)
			if mapBytes == 0 {
				require.Positive(t, losses["map_full"], "the smallest tables have no room for two seconds")
			} else if fill < 0.9 { // or the test stood still while one of them filled
				require.Zero(t, losses["map_full"])
			}
			require.NotZero(t, s.FirstSample())
		})
	}
}

// TestProfilesCoverTheirSamples checks that each profile of an interval in which the period changes has its own length and period, though
// nothing was drained for a while before.
func TestProfilesCoverTheirSamples(t *testing.T) { changedProfiles(t) }

// TestMeasureProfilesCoverTheirSamples checks that each has as many samples as its own length and period ask for.
func TestMeasureProfilesCoverTheirSamples(t *testing.T) {
	if emulated {
		t.Skip("an emulated CPU stands still now and then, and its timer with it")
	}
	own, used := changedProfiles(t)
	for i, p := range own {
		sampled := time.Duration(0)
		for _, one := range p.Samples {
			sampled += time.Duration(one.Values[0] * p.Period)
		}
		t.Logf("%s of %s at %s, %s of CPU time", sampled, p.Duration, time.Duration(p.Period), used[i])
		require.InDelta(t, used[i].Seconds(), sampled.Seconds(), 0.04)
		require.LessOrEqual(t, sampled, p.Duration+20*time.Millisecond, "the length of the profile")
	}
}

// changedProfiles returns the profiles of this process around a change of the period, and the CPU time that it used in each.
func changedProfiles(t *testing.T) (own []*model.Profile, each []time.Duration) {
	t.Helper()
	s := sample(t, config(2*time.Millisecond))
	stop := make(chan struct{})
	var used []time.Duration // CPU time of the thread at each boundary
	ask, answer := make(chan struct{}), make(chan time.Duration)
	var turns atomic.Int64
	go func() {
		sunk := 0
		defer func() { runtime.KeepAlive(sunk) }()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for {
			select {
			case <-ask:
				at, err := kernel.ThreadCPUTime()
				if err != nil {
					at = 0
				}
				answer <- at
			case <-stop:
				return
			default:
				sunk += descend(50)
				turns.Add(1)
			}
		}
	}()
	defer close(stop)
	// work lasts until the thread has computed for much longer than a period, on whatever machine.
	work := func() {
		from := turns.Load()
		time.Sleep(300 * time.Millisecond)
		s.until("the thread computes", func() bool {
			time.Sleep(time.Millisecond)
			return turns.Load()-from > 5000
		})
	}
	cpu := func() {
		ask <- struct{}{}
		used = append(used, <-answer)
	}
	s.drain()
	s.Report(time.Now())
	cpu()
	work()
	s.drain()
	cpu()
	work() // which is not drained when the governor decides
	s.profiles = append(s.profiles, s.Report(time.Now()).Profiles...)
	require.NoError(t, s.SetLevel(1))
	cpu()
	work()
	s.drain()
	cpu()
	s.profiles = append(s.profiles, s.Report(time.Now()).Profiles...)

	own = slices.DeleteFunc(s.profiles, func(p *model.Profile) bool { return p.Process.ID.PID != uint32(os.Getpid()) })
	require.Len(t, own, 3)
	for i, p := range own {
		require.Equal(t, []time.Duration{2 * time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond}[i], time.Duration(p.Period))
		require.NotEmpty(t, p.Samples)
		if i > 0 {
			require.WithinDuration(t, own[i-1].Start.Add(own[i-1].Duration), p.Start, time.Microsecond)
		}
		each = append(each, used[i+1]-used[i])
	}
	return own, each
}

// burn keeps a CPU busy with ever other stacks.
func burn(stop chan struct{}) (sunk int) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return sunk
		default:
			sunk += descend(i % 97)
		}
	}
}

//go:noinline
func descend(depth int) int {
	if depth == 0 {
		sum := 0
		for i := range 20000 {
			sum += i
		}
		return sum
	}
	return descend(depth-1) + 1
}

// TestUnmerged checks that samples are exported, and counted as unmerged, while the hash of their table is full of others.
func TestUnmerged(t *testing.T) {
	c := config(time.Millisecond)
	c.KernelStacks, c.MaxDepth = false, 50 // 1,024 stacks of that depth fit into the table
	s := sample(t, c)
	stop := make(chan struct{})
	defer close(stop)
	for range runtime.NumCPU() {
		go func() { scatter(stop) }()
	}
	// A table is for 1,024 stacks; a machine with other work takes longer to have that many.
	for window := 2 * time.Second; s.Unmerged() == 0 && window <= 32*time.Second; window *= 2 {
		time.Sleep(window)
		s.drain()
	}
	samples, _ := s.samples(uint32(os.Getpid()))
	t.Logf("%d of %d samples not merged by the kernel; %d distinct ones of this program", s.Unmerged(), s.Samples(), len(samples))
	require.Positive(t, s.Unmerged())
	require.LessOrEqual(t, s.Unmerged(), s.Samples())
	require.NotEmpty(t, samples)
}

// scatter keeps a CPU busy with stacks that hardly come twice.
func scatter(stop chan struct{}) (sunk int) {
	for path := uint32(1); ; path = path*1664525 + 1013904223 {
		select {
		case <-stop:
			return sunk
		default:
			sunk += left(path>>8, 16)
		}
	}
}

// left and right follow a path, one bit of it at each step.
//
//go:noinline
func left(path uint32, steps int) int { return step(path, steps) + 1 }

//go:noinline
func right(path uint32, steps int) int { return step(path, steps) + 2 }

//go:noinline
func step(path uint32, steps int) int {
	switch {
	case steps == 0:
		return descend(0)
	case path&1 == 0:
		return left(path>>1, steps-1)
	}
	return right(path>>1, steps-1)
}

// depths are programs of a depth that are sampled to a depth, and the stacks that are expected of most of their samples.
var depths = []struct {
	max, depth, frames int
	err                model.StackError
}{
	{10, 100, 10, model.StackCut},
	{10, 3, 6, model.StackNoTable}, // burn, recurse 4 times, main; then libc's, which have no frame pointer
	{stacks.DefaultDepth, 127, stacks.DefaultDepth, model.StackCut},
	{stacks.MaxDepth, 1000, 1003, model.StackNoTable},
	{stacks.MaxDepth, 3000, stacks.MaxDepth, model.StackCut},
}

func TestMaxDepth(t *testing.T) {
	deep := testbin.C(t, "testdata/deep.c")
	for _, c := range depths {
		conf := config(time.Millisecond)
		conf.MaxDepth, conf.KernelStacks = c.max, false
		s := sample(t, conf)
		matching := int64(0)
		pid := s.runUntil(func(samples []model.Sample) bool {
			matching, _ = matchingStacks(samples, c.frames, c.err)
			return matching >= 10
		}, deep, strconv.Itoa(c.depth), forAnHour)
		samples, _ := s.samples(pid)
		for _, one := range samples {
			if one.ThreadName != "deep" {
				continue // before its exec it is a copy of this test
			}
			require.LessOrEqual(t, len(one.Frames), c.max)
			if one.Error == model.StackCut { // a stack on its way down may have just as many frames
				require.Len(t, one.Frames, c.max)
				if runtime.GOARCH == "amd64" { // elsewhere libc has frame pointers, too, and is deep while it starts the program
					require.Equal(t, model.StackCut, c.err)
				}
			}
		}
		if c.err == model.StackCut {
			require.GreaterOrEqual(t, lost(s.Losses())["stack_cut"], uint64(matching))
		}
	}
}

// matchingStacks counts the samples of the program that have a stack, and all.
func matchingStacks(samples []model.Sample, frames int, err model.StackError) (matching, all int64) {
	for _, one := range samples {
		if one.ThreadName != "deep" {
			continue
		}
		all += one.Values[0]
		if len(one.Frames) >= frames && one.Error == err {
			matching += one.Values[0]
		}
	}
	return matching, all
}

// TestMeasureMaxDepth checks that all samples have the stack but those before and after it is there.
func TestMeasureMaxDepth(t *testing.T) {
	if emulated {
		t.Skip("the start of the program takes long")
	}
	deep := testbin.C(t, "testdata/deep.c")
	for _, c := range depths {
		conf := config(time.Millisecond)
		conf.MaxDepth, conf.KernelStacks = c.max, false
		s := sample(t, conf)
		pid, _ := s.run(nil, deep, strconv.Itoa(c.depth), "300")
		samples, _ := s.samples(pid)
		matching, all := matchingStacks(samples, c.frames, c.err)
		require.Greater(t, float64(matching)/float64(all), 0.9, "%d of %d", matching, all)
	}
}

// TestLevels checks that samples have the period of their level.
func TestLevels(t *testing.T) {
	deep := testbin.C(t, "testdata/deep.c")
	s := sample(t, config(time.Millisecond))
	cmd := exec.Command(deep, "5", forAnHour)
	require.NoError(t, cmd.Start())
	for _, level := range []int{0, 2, 0, 1, 3} {
		require.NoError(t, s.SetLevel(level))
		s.drain()
		s.Report(time.Now()) // those of the level before
		s.until("there are samples of the level", func() bool {
			time.Sleep(s.DrainInterval())
			s.drain()
			found := false
			for _, p := range s.Report(time.Now()).Profiles {
				require.Equal(t, int64(1e6)<<level, p.Period)
				found = found || p.Process.ID.PID == uint32(cmd.Process.Pid)
			}
			return found
		})
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "it was killed")
}

// TestMeasureLevels checks that value times period stays the CPU time whatever the level.
func TestMeasureLevels(t *testing.T) {
	deep := testbin.C(t, "testdata/deep.c")
	s := sample(t, config(time.Millisecond))
	levels, milliseconds := []int{2, 0, 1, 3}, "5500"
	if emulated {
		levels, milliseconds = []int{2, 3}, "3500"
	}
	wanted := map[int64]bool{1e6: true}
	for _, level := range levels {
		wanted[1e6<<level] = true
	}
	due := time.Now().Add(time.Second)
	pid, cpu := s.run(func() {
		// Each change leaves some milliseconds out; the engine makes one in ten seconds at most.
		if len(levels) > 0 && time.Now().After(due) {
			require.NoError(t, s.SetLevel(levels[0]))
			levels, due = levels[1:], time.Now().Add(time.Second)
		}
	}, deep, "5", milliseconds)
	require.Empty(t, levels)
	samples, total := s.samples(pid)
	require.NotEmpty(t, samples)
	t.Logf("CPU time %s, sampled %s", cpu, total)
	tolerance := 0.1 // of some 200 samples at the longest period; a wrong period is off by a factor
	if emulated {
		tolerance = 0.3 // a change takes ten times as long
	}
	require.InEpsilon(t, cpu.Seconds(), total.Seconds(), tolerance)
	periods := map[int64]bool{}
	for _, p := range s.profiles {
		periods[p.Period] = true
	}
	require.Equal(t, wanted, periods)
}

func TestWithoutStacks(t *testing.T) {
	deep := testbin.C(t, "testdata/deep.c")
	conf := config(time.Millisecond)
	conf.KernelStacks, conf.UserStacks = false, false
	s := sample(t, conf)
	pid := s.runUntil(func(samples []model.Sample) bool { return len(samples) > 0 }, deep, "5", forAnHour)
	samples, _ := s.samples(pid)
	for _, one := range samples {
		require.Empty(t, one.Frames)
		require.Empty(t, one.Error)
	}
}

func TestCyclesFallBack(t *testing.T) {
	conf := config(10 * time.Millisecond)
	conf.Event = EventCycles
	s := sample(t, conf)
	if err := s.Degraded(); err != nil {
		require.ErrorContains(t, err, "event cycles is not available, cpu_clock is used: ")
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() { burn(stop) }()
	s.until("there are samples either way", func() bool {
		time.Sleep(s.DrainInterval())
		s.drain()
		return s.Samples() > 0
	})
}
