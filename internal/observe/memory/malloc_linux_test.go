// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// steady is a helper program that allocates and an observation of it alone.
type steady struct {
	*Malloc
	t   *testing.T
	pid uint32
	in  io.Writer
	out *bufio.Reader
	// left says that the program is not in scope any more.
	left atomic.Bool
	// visits counts the beginnings of visits of it, one after the other; links is what is attached while it is not observed.
	visits atomic.Int64
	links  int
	// space is where its mappings are known, once it was looked at.
	space atomic.Pointer[symbol.AddressSpace]
}

func observeSteady(t *testing.T, distance uint64) *steady {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	cmd := exec.Command(testbin.C(t, "testdata/steady.c"))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); require.NoError(t, cmd.Wait()) })

	loader := kernel.NewLoader()
	tracker, err := lifecycle.Start(loader, 1<<17)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tracker.Close()) })
	symbols, err := symbol.New(symbol.Config{RootPath: "/", MemoryBytes: 32 << 20, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, symbols.Close()) })
	s := &steady{t: t, pid: uint32(cmd.Process.Pid), in: in, out: bufio.NewReader(out)}
	s.exchange() // it has mapped what it needs
	s.links = links(t)
	id := model.ProcessID{PID: s.pid, StartTicks: startTicks(t, s.pid)}
	host := observetest.NewHost()
	host.Everybody = true
	s.Malloc, err = StartMalloc(MallocConfig{
		Config:   Config{MapBytes: 16 << 20, SampleBytes: 16 << 20, SysRoot: "/sys", ProcRoot: "/proc"},
		Distance: distance, Live: true, Logger: zap.NewNop(),
		Open: func(id model.ProcessID) (*symbol.AddressSpace, error) {
			space, err := symbols.Open(id)
			s.space.Store(space)
			return space, err
		},
		Decide: func(pid uint32) (model.ProcessID, bool) {
			s.visits.Add(1)
			return id, pid == id.PID && !s.left.Load()
		},
		Charge: func(work func()) { work() },
	}, loader, tracker.SharedMaps(), host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.Look(s.pid)
	s.attached(true)
	return s
}

func startTicks(t *testing.T, pid uint32) uint64 {
	t.Helper()
	stat, err := proctest.ReadStat(proctest.Process(int(pid)))
	require.NoError(t, err)
	return stat.StartTicks
}

// attached waits until all is attached to the program, or nothing.
func (s *steady) attached(yes bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.Attached() > 0 == yes }, time.Minute, time.Millisecond)
	if !yes {
		require.Eventually(s.t, func() bool { return links(s.t) == s.links }, time.Minute, time.Millisecond)
		return
	}
	visits := s.visits.Load()
	s.Look(s.pid)
	require.Eventually(s.t, func() bool { return s.visits.Load() > visits }, time.Minute, time.Millisecond, "the visit that attached is over")
}

// links counts what this process has attached programs to.
func links(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, file := range files {
		to, err := os.Readlink("/proc/self/fd/" + file.Name())
		if err == nil && (strings.Contains(to, "perf_event") || strings.Contains(to, "bpf_link") || strings.Contains(to, "bpf-link")) {
			n++
		}
	}
	return n
}

// exchange lets the program allocate and returns how often it did and the CPU time that it took.
func (s *steady) exchange() (n int64, took time.Duration) {
	s.t.Helper()
	_, err := io.WriteString(s.in, "\n")
	require.NoError(s.t, err)
	line, err := s.out.ReadString('\n')
	require.NoError(s.t, err)
	_, err = fmt.Sscan(line, &n, &took)
	require.NoError(s.t, err)
	return n, took
}

// totals are the sums of the values of what is reported, by sample type, and the period.
func (s *steady) totals() (sums map[string]int64, period int64) {
	s.t.Helper()
	require.NoError(s.t, s.Drain())
	sums = map[string]int64{}
	for _, p := range s.Report(time.Now()).Profiles {
		period = p.Period
		require.Equal(s.t, model.ValueType{Type: "space", Unit: "bytes"}, p.PeriodType)
		for _, one := range p.Samples {
			for i, of := range p.SampleTypes {
				sums[of.Type] += one.Values[i]
			}
		}
	}
	return sums, period
}

// TestLevels checks that a level doubles the distance and changes no sum, that at the last nothing is attached, and that all
// is seen again afterwards.
func TestLevels(t *testing.T) {
	s := observeSteady(t, 1000)
	n, _ := s.exchange()
	sums, period := s.totals()
	require.Equal(t, map[string]int64{"alloc_space": 1000 * n, "alloc_objects": n, "inuse_space": 100_000, "inuse_objects": 100}, sums)
	require.Equal(t, int64(1000), period)

	require.NoError(t, s.SetLevel(2))
	n, _ = s.exchange()
	sums, period = s.totals()
	require.InDelta(t, n, sums["alloc_objects"], 4*math.Sqrt(float64(n)*3), "a fourth is sampled")
	require.InDelta(t, 100, sums["inuse_objects"], 4*math.Sqrt(100*3))
	require.Equal(t, int64(4000), period)

	require.NoError(t, s.SetLevel(pausedLevel))
	s.attached(false)
	s.exchange()
	sums, _ = s.totals()
	require.Empty(t, sums, "nothing is seen, nothing is reported")

	require.NoError(t, s.SetLevel(0))
	s.attached(true)
	n, _ = s.exchange()
	sums, _ = s.totals()
	require.Equal(t, map[string]int64{"alloc_space": 1000 * n, "alloc_objects": n, "inuse_space": 100_000, "inuse_objects": 100}, sums)
	for _, l := range s.Losses() {
		if !l.Incomplete {
			require.Zero(t, l.Count, "%s %s", l.Probe, l.Reason)
		}
	}
	allocating, freeing := s.Calls()
	require.EqualValues(t, 3*1000, allocating)
	require.InDelta(t, 3*1000, freeing, 200)
	require.Len(t, must(t, s.Costs), 11)
}

func must(t *testing.T, costs func() ([]observe.ProgramCost, error)) []observe.ProgramCost {
	t.Helper()
	all, err := costs()
	require.NoError(t, err)
	return all
}

// TestManyLooks checks that a process whose mappings are said to change all the time is read less and less often, and that the last
// change is seen.
func TestManyLooks(t *testing.T) {
	s := observeSteady(t, 1000)
	readings, last := 0, time.Time{}
	began := time.Now()
	for ; time.Since(began) < time.Second || readings <= 3; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(began), time.Minute)
		s.Look(s.pid)
		if at := s.space.Load().ReadSince(); at != last {
			readings, last = readings+1, at
		}
	}
	require.LessOrEqual(t, readings, 6+int(time.Since(began)/(50*time.Millisecond)), "one in 50 ms, and those before that are nearer")
	reported := time.Now()
	s.Look(s.pid)
	require.Eventually(t, func() bool { return s.space.Load().ReadSince().After(reported) }, time.Minute, time.Millisecond)
}

// TestGone checks that a process that goes out of scope is detached from and reported no more, and observed anew when it comes back.
func TestGone(t *testing.T) {
	s := observeSteady(t, 1000)
	s.exchange()
	sums, _ := s.totals()
	require.Equal(t, int64(100_000), sums["inuse_space"])
	s.left.Store(true)
	s.LookAll()
	s.attached(false)
	for range 2 {
		s.exchange()
		sums, _ := s.totals()
		require.Empty(t, sums, "nothing is seen, and what is in use is not known any more")
	}
	s.left.Store(false)
	s.Look(s.pid)
	s.attached(true)
	n, _ := s.exchange()
	sums, _ = s.totals()
	require.Equal(t, map[string]int64{"alloc_space": 1000 * n, "alloc_objects": n, "inuse_space": 100_000, "inuse_objects": 100}, sums)
}

// TestMeasureCost prints what a pair of malloc and free costs a program, by who observes it. Breakpoints are dear in virtual
// machines, most of all in nested ones.
func TestMeasureCost(t *testing.T) {
	guest.SameOnEveryKernel(t)
	for _, c := range []struct {
		name     string
		distance uint64
	}{{"not sampled", MaxDistance}, {"each sampled", 1}} {
		s := observeSteady(t, c.distance)
		pair := func() time.Duration {
			best := time.Hour
			for range 5 {
				n, took := s.exchange()
				best = min(best, took/time.Duration(n))
			}
			return best
		}
		observed := pair()
		require.NoError(t, s.SetLevel(pausedLevel))
		s.attached(false)
		alone := pair()
		t.Logf("%s: %s for a pair of malloc and free, %s without observation", c.name, observed, alone)
		require.Less(t, alone, observed)
	}
}

// TestBusyUnwinder checks that a program which runs into another one in the midst of a walk on its CPU leaves the walk alone,
// though user space has turned the tables meanwhile, and counts what it has lost.
func TestBusyUnwinder(t *testing.T) {
	s := observeSteady(t, 1000)
	walks := s.coll.Maps[bindings.MemoryMallocMapUnwindCpus]
	occupy := func(programs uint32) {
		var cpu bindings.MemoryMallocUnwindCpu
		for i := range walks.MaxEntries() {
			require.NoError(t, walks.Lookup(i, &cpu))
			cpu.Busy = programs
			require.NoError(t, walks.Put(i, cpu))
		}
	}
	occupy(1)
	for range 2 { // of each of the two tables
		n, _ := s.exchange()
		sums, _ := s.totals()
		require.Zero(t, sums["alloc_objects"], "of %d", n)
	}
	require.NotZero(t, s.loss("busy"))
	occupy(0)
	n, _ := s.exchange()
	sums, _ := s.totals()
	require.Equal(t, n, sums["alloc_objects"])
}

func (s *steady) loss(reason string) uint64 {
	s.t.Helper()
	for _, l := range s.Losses() {
		if l.Reason == reason {
			return l.Count
		}
	}
	require.Fail(s.t, "no such reason", reason)
	return 0
}
