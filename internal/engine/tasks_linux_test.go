// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// onDemand is an engine that observes nothing until a task asks for it.
func onDemand() Config {
	config := configuration(9 * time.Millisecond)
	config.Observe, config.OnDemand = nil, true
	return config
}

func onCPU(period time.Duration) *oncpu.Options {
	return &oncpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, Period: period}
}

// warmUp makes what is kept for later tasks: what names addresses of the kernel, and unwind tables of these programs.
func (o *observed) warmUp(programs ...*program) {
	o.t.Helper()
	o.symbols.KernelFrames(nil, []uint64{math.MaxUint64 - 1<<30})
	var processes []*model.Process
	for _, p := range programs {
		processes = append(processes, o.identity(p))
	}
	run := o.ask("warm up", onCPU(5*time.Millisecond), processes...)
	require.Eventually(o.t, func() bool {
		for _, p := range programs {
			if add(o.of(isPID(p.Process.Pid))).within("main prologue") == 0 {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond)
	_, err := run.Stop()
	require.NoError(o.t, err)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profiles = nil
}

// identity is what the engine knows a program by.
func (o *observed) identity(p *program) *model.Process {
	o.t.Helper()
	known, inScope, err := o.table.LookupPID(uint32(p.Process.Pid))
	require.NoError(o.t, err)
	require.True(o.t, inScope)
	return known
}

// ask starts an observation of processes for a task.
func (o *observed) ask(id string, plan observe.Plan, processes ...*model.Process) task.Observation {
	o.t.Helper()
	started, err := o.Start(task.Spec{TaskID: id, Kind: string(plan.Kind()), Options: plan, Processes: processes})
	require.NoError(o.t, err)
	return started
}

// awaitSamples waits until so many samples of a program were exported.
func (o *observed) awaitSamples(of *program, n int64, match func(*model.Profile) bool) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		exported := slices.DeleteFunc(o.of(isPID(of.Process.Pid)), func(p *model.Profile) bool { return !match(p) })
		return add(exported).samples >= n
	}, time.Minute, 50*time.Millisecond)
}

// bpfFiles are the descriptors of this process that hold programs, maps, links and perf events, ordered by what they are.
func bpfFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var files []string
	for _, entry := range entries {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		if err == nil && (strings.HasPrefix(to, "anon_inode:bpf") || to == "anon_inode:[perf_event]") {
			files = append(files, to)
		}
	}
	slices.Sort(files)
	return files
}

// mappedTables counts the mappings of maps. The library that loads programs unmaps the variables of an object when the garbage collector has
// found them to be unused: it runs until the count stays.
func mappedTables(t *testing.T) int {
	t.Helper()
	mapped := -1
	require.Eventually(t, func() bool {
		runtime.GC()
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		before := mapped
		mapped = bytes.Count(maps, []byte("bpf"))
		return mapped == before
	}, time.Minute, 50*time.Millisecond)
	return mapped
}

// TestTask holds that a task observes its process alone, says whose it is, and leaves nothing; one that wants the same of
// another process shares what runs, and each has what is its own.
func TestTask(t *testing.T) {
	needRoot(t)
	path := testbin.C(t, "testdata/chain.c")
	e := begin(t, onDemand())
	busy, other, third := launch(t, path, endless, "-"), launch(t, path, endless, "-"), launch(t, path, endless, "-")
	require.Zero(t, e.Stats().Attached["on_cpu"])
	e.warmUp(busy, other)
	before, mapped := bpfFiles(t), mappedTables(t)

	first := e.ask("one", onCPU(5*time.Millisecond), e.identity(busy))
	require.True(t, first.Covers(e.identity(busy).ID))
	require.False(t, first.Covers(e.identity(other).ID))
	attached := e.Stats().Attached["on_cpu"]
	require.Positive(t, attached)
	second := e.ask("two", onCPU(5*time.Millisecond), e.identity(other))
	require.Equal(t, attached, e.Stats().Attached["on_cpu"], "what wants the same shares it")
	e.awaitSamples(busy, 20, func(p *model.Profile) bool { return p.TaskID == "one" })
	e.awaitSamples(other, 20, func(p *model.Profile) bool { return p.TaskID == "two" })
	counts, err := first.Stop()
	require.NoError(t, err)
	firstSamples := add(e.of(isPID(busy.Process.Pid)))
	require.Equal(t, uint64(firstSamples.samples), counts.Samples)
	require.Positive(t, e.Stats().Attached["on_cpu"])
	counts, err = second.Stop()
	require.NoError(t, err)
	require.Positive(t, counts.Samples)

	require.Equal(t, before, bpfFiles(t), "nothing of it is left")
	require.Equal(t, mapped, mappedTables(t))
	require.Zero(t, e.Stats().Attached["on_cpu"])
	require.Nil(t, e.mappings.Load())
	events := e.Stats().Events["on_cpu"]
	require.GreaterOrEqual(t, events, uint64(firstSamples.samples), "counts never fall")

	e.named()
	for pid, id := range map[int]string{busy.Process.Pid: "one", other.Process.Pid: "two"} {
		got := e.of(isPID(pid))
		require.NotEmpty(t, got)
		for _, p := range got {
			require.Equal(t, id, p.TaskID)
		}
		require.Greater(t, add(got).within("main prologue"), 0.5, "%v", add(got).stacks)
	}
	require.Empty(t, e.of(isPID(third.Process.Pid)))
	exported := len(e.of(func(*model.Process) bool { return true }))
	require.Len(t, append(e.of(isPID(busy.Process.Pid)), e.of(isPID(other.Process.Pid))...), exported, "of no other process")
}

// TestTaskBesideObserve holds that what runs from the start goes on as it was, and that a task of the same kind with other
// options runs at the same time.
func TestTaskBesideObserve(t *testing.T) {
	guest.SameOnEveryKernel(t) // a bit of scopes is a constant of each object, which others load on each kernel
	path := testbin.C(t, "testdata/chain.c")
	busy := launch(t, path, endless, "-")
	config := configuration(20*time.Millisecond, process.Selector{Exe: path})
	config.OnDemand = true
	e := begin(t, config)
	require.Eventually(t, func() bool { return len(e.of(isPID(busy.Process.Pid))) > 0 }, time.Minute, 20*time.Millisecond)
	run := e.ask("parallel", onCPU(5*time.Millisecond), e.identity(busy))
	e.awaitSamples(busy, 20, func(p *model.Profile) bool { return p.TaskID == "parallel" })
	e.awaitSamples(busy, 10, func(p *model.Profile) bool { return p.TaskID == "" })
	_, err := run.Stop()
	require.NoError(t, err)
	e.named()
	e.end()
	var of [2][]*model.Profile
	for _, p := range e.of(isPID(busy.Process.Pid)) {
		switch p.TaskID {
		case "":
			of[0] = append(of[0], p)
			require.Equal(t, int64(20*time.Millisecond), p.Period)
		case "parallel":
			of[1] = append(of[1], p)
			require.Equal(t, int64(5*time.Millisecond), p.Period)
		default:
			t.Fatalf("task %q", p.TaskID)
		}
	}
	for _, got := range of {
		require.Greater(t, add(got).within("main prologue"), 0.5, "%v", add(got).stacks)
	}
}

// TestTaskOfTargets holds that a task of targets observes processes that start later, too.
func TestTaskOfTargets(t *testing.T) {
	guest.SameOnEveryKernel(t)
	path := copyFile(t, testbin.C(t, "testdata/chain.c"), t.TempDir()+"/matching")
	e := begin(t, onDemand())
	options := onCPU(5 * time.Millisecond)
	run, err := e.Start(task.Spec{TaskID: "targets", Options: options, Targets: []process.Selector{{Exe: path}}})
	require.NoError(t, err)
	late := launch(t, path, endless, "-")
	require.Eventually(t, func() bool { return run.Covers(e.identity(late).ID) }, time.Minute, 5*time.Millisecond)
	e.awaitSamples(late, 1, func(*model.Profile) bool { return true })
	late.kill()
	_, err = run.Stop()
	require.NoError(t, err)
	got := e.of(isPID(late.Process.Pid))
	require.NotEmpty(t, got)
	require.Equal(t, "targets", got[0].TaskID)
	require.Len(t, e.of(func(*model.Process) bool { return true }), len(got))
}

// TestEveryKindForATask holds that each kind can be started for a process while others run, and leaves nothing.
func TestEveryKindForATask(t *testing.T) {
	guest.SameOnEveryKernel(t) // a bit of scopes is a constant of each object, which others load on each kernel
	path := testbin.C(t, "testdata/chain.c")
	e := begin(t, onDemand())
	busy := launch(t, path, endless, "-")
	all := []observe.Plan{
		onCPU(9 * time.Millisecond),
		&offcpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{UserStacks: true, MaxDepth: 127}, MinBlock: time.Millisecond},
		&memory.Options{Common: observe.Common{ReportInterval: time.Second}},
		&memory.Options{Common: observe.Common{ReportInterval: time.Second}, Source: memory.SourceMalloc, SampleBytes: setting.ByteSize(512 << 10)},
		&network.Plan{Common: observe.Common{ReportInterval: time.Second}},
	}
	require.LessOrEqual(t, len(all), TaskObservations)
	e.warmUp(busy)
	before := bpfFiles(t)
	var runs []task.Observation
	for _, options := range all {
		runs = append(runs, e.ask("each", options, e.identity(busy)))
		require.Positive(t, e.Stats().MapBytes)
	}
	for _, run := range runs {
		_, err := run.Stop()
		require.NoError(t, err)
	}
	require.Equal(t, before, bpfFiles(t))
}

// TestATaskAttaches holds that a task about allocations attaches to who has run before it, that another one which shares the observation
// does, too, and that each leaves its own process.
func TestATaskAttaches(t *testing.T) {
	needRoot(t)
	e := begin(t, onDemand())
	path := testbin.C(t, "testdata/allocs.c")
	var steppers []*stepper
	var identities []*model.Process
	for range 2 {
		s := steps(t, path)
		s.step("warm") // it has mapped what it will
		known, inScope, err := e.table.LookupPID(uint32(s.Process.Pid))
		require.NoError(t, err)
		require.True(t, inScope)
		steppers, identities = append(steppers, s), append(identities, known)
	}
	options := &memory.Options{Common: observe.Common{ReportInterval: 200 * time.Millisecond}, Source: memory.SourceMalloc, SampleBytes: setting.ByteSize(1)}
	first := e.ask("first", options, identities[0])
	one := e.attached(3)
	second := e.ask("second", options, identities[1])
	require.Equal(t, 2*one, e.attached(2*one), "the second is attached to, too")
	truth := steppers[1].step("done")
	_, err := first.Stop()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return e.Stats().Attached["memory"] == one }, time.Minute, 10*time.Millisecond, "the first is left")
	_, err = second.Stop()
	require.NoError(t, err)
	e.named()
	allocated := uses(e.of(isPID(steppers[1].Process.Pid)), "alloc_space", truth)
	require.NotEmpty(t, truth)
	for function, want := range truth {
		require.Equal(t, [2]int64{want[1], want[0]}, allocated[function], "%s allocates", function)
	}
	require.Empty(t, e.of(isPID(steppers[0].Process.Pid)))
}

// TestRefusedTasks holds that what cannot run says why, and leaves nothing.
func TestRefusedTasks(t *testing.T) {
	guest.SameOnEveryKernel(t)
	needRoot(t)
	config := onDemand()
	config.Exclude = []process.Selector{{PID: 1}}
	e := begin(t, config)
	before := bpfFiles(t)
	unknown := &model.Process{ID: model.ProcessID{PID: math.MaxInt32, StartTicks: 1}}
	refused := func(options any, processes ...*model.Process) error {
		_, err := e.Start(task.Spec{TaskID: "no", Options: options, Processes: processes})
		return err
	}
	require.EqualError(t, refused(onCPU(time.Millisecond), unknown), "process 2147483647 has ended")
	e.mu.Lock()
	require.Contains(t, e.exited, unknown.ID)
	e.mu.Unlock()
	require.ErrorContains(t, refused("on_cpu"), "no options of an observation")
	init, _, err := e.table.LookupPID(1)
	require.NoError(t, err)
	if init == nil {
		init = &model.Process{ID: model.ProcessID{PID: 1}}
	}
	require.Error(t, refused(onCPU(time.Millisecond), init))
	_, err = e.Start(task.Spec{Options: onCPU(time.Millisecond), Targets: []process.Selector{{Comm: "("}}})
	require.ErrorContains(t, err, "targets[0]: comm")
	require.Equal(t, before, bpfFiles(t))

	alive := launch(t, testbin.C(t, "testdata/chain.c"), endless, "-")
	var runs []task.Observation
	for i := range TaskObservations {
		runs = append(runs, e.ask("full", onCPU(time.Duration(10+i)*time.Millisecond), e.identity(alive)))
	}
	require.ErrorContains(t, refused(onCPU(time.Second), e.identity(alive)), "8 observations with different options run for tasks already")
	_, err = runs[3].Stop()
	require.NoError(t, err)
	require.NoError(t, refused(onCPU(time.Second), e.identity(alive)), "there is room again")
	e.end() // ends the others
	require.ErrorIs(t, refused(onCPU(time.Second), unknown), errStopped)
	for i, run := range runs {
		if i != 3 {
			_, err := run.Stop()
			require.NoError(t, err, "the engine has ended it")
		}
	}
}
