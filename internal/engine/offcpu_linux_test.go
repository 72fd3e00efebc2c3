// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// waiting is a configuration that times the waits of one program.
func waiting(include ...process.Selector) Config {
	config := configuration(time.Second, include...)
	config.Observe = []observe.Plan{&offcpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, MinBlock: time.Millisecond}}
	return config
}

// waits are the samples of a program, of one thread or of all (0). They are shown when the test fails.
func (o *observed) waits(path string, thread int) []model.Sample {
	var samples []model.Sample
	for _, p := range o.of(runs(path)) {
		for _, s := range p.Samples {
			if thread == 0 || s.ThreadID == uint32(thread) {
				samples = append(samples, s)
			}
		}
	}
	o.t.Cleanup(func() {
		if o.t.Failed() {
			show(o.t, samples)
		}
	})
	return samples
}

// total sums the waits that fit.
func total(samples []model.Sample, fits func(*model.Sample) bool) (sum time.Duration) {
	for i := range samples {
		if fits(&samples[i]) {
			sum += time.Duration(samples[i].Values[0])
		}
	}
	return sum
}

func all(*model.Sample) bool { return true }

func below(function string) func(*model.Sample) bool {
	return func(s *model.Sample) bool { return strings.Contains(names(s.Frames), function) }
}

func because(reason model.BlockReason) func(*model.Sample) bool {
	return func(s *model.Sample) bool { return s.BlockReason == reason }
}

func show(t *testing.T, samples []model.Sample) {
	for _, s := range samples {
		t.Logf("%d %s %s %s: %s", s.ThreadID, s.BlockReason, time.Duration(s.Values[0]), s.Error, names(s.Frames))
	}
}

// discovered starts a program that waits for the end of its input until it is discovered and has unwind tables.
func (o *observed) discovered(path string, args ...string) *program {
	o.t.Helper()
	p := &program{Cmd: exec.Command(path, args...), t: o.t, began: time.Now()}
	p.Stdout = &p.out
	in, err := p.StdinPipe()
	require.NoError(o.t, err)
	require.NoError(o.t, p.Start())
	o.t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait() // it was killed
		}
	})
	require.Eventually(o.t, func() bool { return executes(p) && o.opened(p.Process.Pid) }, time.Minute, 10*time.Millisecond)
	o.unwound()
	require.NoError(o.t, in.Close())
	return p
}

// TestDeadlock holds that two threads that wait for each other's mutex until the process ends are recorded with that time below
// pthread_mutex_lock.
func TestDeadlock(t *testing.T) {
	deadlocked(t, func(_, locked time.Duration) {})
}

// TestMeasureDeadlock holds that it is not more.
func TestMeasureDeadlock(t *testing.T) {
	tolerance := 0.02
	if emulated {
		tolerance = 0.2
	}
	deadlocked(t, func(held, locked time.Duration) { require.InEpsilon(t, held.Seconds(), locked.Seconds(), tolerance) })
}

// deadlocked passes how long two threads waited at least, and how long by what was exported.
func deadlocked(t *testing.T, judge func(held, locked time.Duration)) {
	t.Helper()
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	o.makeTables(blocked, "mixed", endless)
	p := &program{Cmd: exec.Command(blocked, "deadlock", endless), t: t, began: time.Now()}
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	var threads [2]int
	_, err = fmt.Fscan(out, &threads[0], &threads[1])
	require.NoError(t, err)
	began := time.Now()
	require.Eventually(t, func() bool { return o.opened(p.Process.Pid) }, time.Minute, 10*time.Millisecond)
	o.unwound()
	time.Sleep(2 * time.Second)
	held := time.Since(began)
	p.kill()
	o.reportNow()
	o.named()
	o.end()
	for _, thread := range threads {
		locked := total(o.waits(blocked, thread), func(s *model.Sample) bool {
			return s.BlockReason == model.BlockLock && below("pthread_mutex_lock")(s)
		})
		require.GreaterOrEqual(t, locked, held)
		require.LessOrEqual(t, locked, p.took)
		judge(held, locked)
	}
}

// TestMeasureSleepers holds that the only long wait of programs that start together is unwound by their tables, also where the
// kernel met them before or in the middle of their exec. Few programs are read before they are sampled, of all that start on
// the host: some may go without.
func TestMeasureSleepers(t *testing.T) {
	needRoot(t)
	needPromptness(t)
	sleeper := copyFile(t, "/bin/sleep", filepath.Join(t.TempDir(), "sleeper"))
	o := begin(t, waiting(process.Selector{Exe: sleeper}))
	time.Sleep(300 * time.Millisecond) // what is read of a host at the start
	running := make([]*program, 12)
	for i := range running {
		running[i] = launch(t, sleeper, "2")
	}
	for _, p := range running {
		p.end()
	}
	o.end()
	var broken int
	for _, p := range running {
		slept := total(o.waits(sleeper, p.Process.Pid), func(s *model.Sample) bool {
			return s.BlockReason == model.BlockSleep && s.Error == model.StackWhole
		})
		if slept < 1900*time.Millisecond {
			broken++
		}
	}
	t.Logf("%d of %d were not unwound", broken, len(running))
	// Programs that others start meanwhile are read instead of some of these.
	require.LessOrEqual(t, broken, len(running)/3)
}

// TestOffCPUTime holds that brief and long waits of each thread are exported, and in all no more than its time on the clock.
func TestOffCPUTime(t *testing.T) {
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	p := launch(t, blocked, "mixed", endless)
	var waits map[uint32][]model.Sample
	require.Eventually(t, func() bool {
		waits = map[uint32][]model.Sample{}
		for _, profile := range o.of(runs(blocked)) {
			for _, s := range profile.Samples {
				waits[s.ThreadID] = append(waits[s.ThreadID], s)
			}
		}
		mixed := 0
		for _, samples := range waits {
			if total(samples, because(model.BlockShort)) > 0 && total(samples, because(model.BlockSleep)) > 0 {
				mixed++
			}
		}
		return mixed >= 2
	}, time.Minute, 50*time.Millisecond)
	p.kill()
	for _, samples := range waits {
		require.LessOrEqual(t, total(samples, all), p.took)
	}
}

// TestMeasureOffCPUTime holds that the time of all waits of a thread is what the kernel says that it did not run: the wall clock
// less its CPU time.
func TestMeasureOffCPUTime(t *testing.T) {
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	numbers := launch(t, blocked, "mixed", "3000").end()
	require.Len(t, numbers, 6)
	o.end()
	for i := 0; i < len(numbers); i += 3 {
		samples := o.waits(blocked, int(numbers[i]))
		want, got := numbers[i+1]-numbers[i+2], total(samples, all)
		t.Logf("off CPU %s of %s, exported %s, of which %s in short waits", want, numbers[i+1], got, total(samples, because(model.BlockShort)))
		tolerance := 0.02
		if emulated {
			tolerance = 0.3 // the start and the end of a thread take longer than between its looks at the clock
		}
		require.InEpsilon(t, want.Seconds(), got.Seconds(), tolerance)
		require.Positive(t, total(samples, because(model.BlockShort)))
		require.Positive(t, total(samples, because(model.BlockSleep)))
	}
}

// TestMeasurePreempted holds that a thread whose CPU another one has is recorded as preempted, for as long as the kernel says that it
// was in the run queue.
func TestMeasurePreempted(t *testing.T) {
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	numbers := launch(t, blocked, "crowd", "2000").end()
	require.Len(t, numbers, 4)
	o.end()
	t.Logf("lost %v", o.Stats().Lost)
	for i := 0; i < len(numbers); i += 2 {
		samples := o.waits(blocked, int(numbers[i]))
		// A thread that exits, whose stack is gone, has read its run delay before.
		inTime := func(s *model.Sample) bool {
			return because(model.BlockPreempted)(s) && s.Error != model.StackUnreadable
		}
		preempted, short := total(samples, inTime), total(samples, because(model.BlockShort))
		t.Logf("in the run queue %s, exported %s preempted and %s in short waits, %s in all", numbers[i+1], preempted, short, total(samples, all))
		require.Greater(t, numbers[i+1], 500*time.Millisecond, "they shared a CPU")
		tolerance := 0.03
		if emulated || o.Stats().Lost[LossKey{"off_cpu", "ran_unseen"}] > 0 {
			tolerance = 0.15 // waits whose beginning was not seen are in the loss counter, and not in what is exported
		}
		require.InEpsilon(t, numbers[i+1].Seconds(), (preempted + short).Seconds(), tolerance)
	}
}

// TestMeasureOffCPUShares holds that functions are exported with their parts of the time that was waited.
func TestMeasureOffCPUShares(t *testing.T) {
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	discovered := copyFile(t, blocked, filepath.Join(t.TempDir(), "met")) // its unwind tables are the same
	o := begin(t, waiting(process.Selector{Exe: blocked}, process.Selector{Exe: discovered}))
	o.tabled(discovered, "shares", endless)
	spent := launch(t, blocked, "shares", "3000").end()
	require.Len(t, spent, 2)
	o.end()
	samples := o.waits(blocked, 0)
	long, brief := total(samples, below("main long_wait")), total(samples, below("main brief_wait"))
	early := total(samples, func(s *model.Sample) bool { return s.Error == model.StackNoTable }) // before the program was read
	t.Logf("long %s of %s, brief %s of %s, early %s", long, spent[0], brief, spent[1], early)
	share, tolerance, late := 0.03, 0.03, 0.1
	if emulated { // the first look at a program takes long there
		share, tolerance, late = 0.15, 0.3, 0.3
	}
	slept := (spent[0] + spent[1]).Seconds()
	require.InDelta(t, spent[0].Seconds()/slept, long.Seconds()/(long+brief).Seconds(), share)
	require.InEpsilon(t, slept, (long + brief + early).Seconds(), tolerance)
	require.Less(t, early.Seconds(), late*slept)
}

// TestBlockReasons holds that each wait is recorded with its reason.
func TestBlockReasons(t *testing.T) {
	blockReasons(t, func(samples []model.Sample, waited map[model.BlockReason]time.Duration) {
		for reason := range waited {
			require.Positive(t, total(samples, because(reason)), "%s", reason)
		}
	})
}

// TestMeasureBlockReasons holds that all of the time is recorded so.
func TestMeasureBlockReasons(t *testing.T) {
	blockReasons(t, func(samples []model.Sample, waited map[model.BlockReason]time.Duration) {
		tolerance := 0.02
		if emulated {
			tolerance = 0.15 // the program's looks at the clock have the time in them that an emulated CPU stands still
		}
		untimed := below("pthread_barrier_wait") // where two threads begin, which the program does not time
		for reason, expected := range waited {
			got := total(samples, func(s *model.Sample) bool { return because(reason)(s) && !untimed(s) })
			require.InDelta(t, expected.Seconds(), got.Seconds(), tolerance, "%s", reason)
		}
	})
}

// blockReasons passes the waits of a program's main thread, and how long it waited by its own account.
func blockReasons(t *testing.T, judge func(samples []model.Sample, waited map[model.BlockReason]time.Duration)) {
	t.Helper()
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	program := o.discovered(blocked, "reasons")
	waited := program.end()
	require.Len(t, waited, 10)
	o.end()
	samples := o.waits(blocked, program.Process.Pid)
	require.LessOrEqual(t, total(samples, all), program.took)
	want := map[model.BlockReason]time.Duration{}
	for i, reason := range []model.BlockReason{
		model.BlockLock, model.BlockSleep, model.BlockSleep, model.BlockSleep, model.BlockNetwork, model.BlockNetwork,
		model.BlockNetwork, model.BlockNetwork, model.BlockOther, model.BlockOther,
	} {
		want[reason] += waited[i]
	}
	judge(samples, want)
}

// onBlockDevice returns a folder of a file system that is on a block device.
func onBlockDevice(t *testing.T) string {
	t.Helper()
	folders := []string{t.TempDir(), "/var/tmp", "."}
	for _, folder := range folders {
		var stat unix.Stat_t
		if unix.Stat(folder, &stat) == nil && unix.Major(stat.Dev) != 0 { // 0: the device is no real one
			return folder
		}
	}
	t.Skipf("none of %v is on a block device", folders)
	return ""
}

// TestMeasureDiskWaits holds that what a program waits for its disk is recorded so: its time in writing, syncing and reading off the CPU.
func TestMeasureDiskWaits(t *testing.T) {
	needRoot(t)
	folder := onBlockDevice(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	config := waiting(process.Selector{Exe: blocked})
	planOf[*offcpu.Options](config).MinBlock = 0 // disks are quick
	o := begin(t, config)
	program := launch(t, blocked, "disk", folder)
	numbers := program.end()
	require.Len(t, numbers, 6)
	o.end()
	samples := o.waits(blocked, program.Process.Pid)
	for i, functions := range [][]string{{"write", "fsync"}, {"read"}} {
		var disk, preempted time.Duration // preempted: the disk had answered, and another thread had the CPU
		for _, function := range functions {
			disk += total(samples, func(s *model.Sample) bool { return s.BlockReason == model.BlockDisk && below(function)(s) })
			preempted += total(samples, func(s *model.Sample) bool { return s.BlockReason == model.BlockPreempted && below(function)(s) })
		}
		off, delayed, took := numbers[3*i], numbers[3*i+1], numbers[3*i+2]
		t.Logf("%v: off the CPU %s, %s of it waiting for a CPU; reported %s for the disk and %s preempted", functions, off, delayed, disk, preempted)
		// A wait is as short as 50 µs: the switches themselves are a part of it. Waiting for a CPU may fall between two calls. The CPU time of
		// a thread includes what a hypervisor takes from it, which makes off too small: only the wall clock is a safe upper bound.
		require.GreaterOrEqual(t, disk+preempted, (off-delayed)*3/4)
		require.LessOrEqual(t, disk+preempted, took)
		if inLongForm() {
			require.LessOrEqual(t, disk+preempted, off*5/4)
		}
		require.Greater(t, disk, (off-delayed)/2)
	}
}

// TestPageFaultWaits holds that a thread that waits for its memory is recorded so, below the code that touched it.
func TestPageFaultWaits(t *testing.T) { pageFaultWaits(t, func(_, _, _ time.Duration) {}) }

// TestMeasurePageFaultWaits holds that it is recorded for as long as the process that serves the memory kept it waiting.
func TestMeasurePageFaultWaits(t *testing.T) {
	pageFaultWaits(t, func(reported, held, off time.Duration) {
		require.GreaterOrEqual(t, reported, held-held/100)
		if emulated {
			off += off / 5 // between the looks at the clock an emulated CPU stands still now and then
		}
		require.LessOrEqual(t, reported, off+off/50, "the kernel takes the switches themselves for the thread's own time")
	})
}

// pageFaultWaits passes how long a thread waited for its memory: as reported, as it was kept waiting, and as it was off the CPU.
func pageFaultWaits(t *testing.T, judge func(reported, held, off time.Duration)) {
	t.Helper()
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	o.makeTables(blocked, "mixed", endless) // else the first wait may come before the tables
	program := o.discovered(blocked, "fault")
	numbers := program.end()
	require.Len(t, numbers, 4)
	o.reportNow()
	o.named()
	o.end()
	samples := o.waits(blocked, program.Process.Pid)
	off, held := numbers[0]+numbers[1], numbers[2]+numbers[3]
	reported := total(samples, func(s *model.Sample) bool {
		return s.BlockReason == model.BlockPageFault && below("main touch")(s)
	})
	t.Logf("kept waiting for %s, off the CPU %s, reported %s", held, off, reported)
	require.Positive(t, reported)
	require.LessOrEqual(t, reported, program.took)
	judge(reported, held, off)
}
