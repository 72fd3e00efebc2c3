// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
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

// TestDeadlock holds that two threads that wait for each other's mutex for two seconds, until the process ends, are recorded
// with these two seconds below pthread_mutex_lock.
func TestDeadlock(t *testing.T) {
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	threads := launch(t, blocked, "deadlock", "2000").end()
	require.Len(t, threads, 2)
	o.end()
	for _, thread := range threads {
		samples := o.waits(blocked, int(thread))
		locked := total(samples, func(s *model.Sample) bool {
			return s.BlockReason == model.BlockLock && below("pthread_mutex_lock")(s)
		})
		if !emulated {
			require.InEpsilon(t, 2.0, locked.Seconds(), 0.02)
		} else {
			require.InEpsilon(t, 2.0, locked.Seconds(), 0.2)
		}
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

// TestOffCPUTime holds that the time of all waits of a thread is what the kernel says that it did not run: the wall clock
// less its CPU time.
func TestOffCPUTime(t *testing.T) {
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
	o.tabled(discovered, "shares", milliseconds(time.Minute))
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
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	program := launch(t, blocked, "reasons")
	waited := program.end()
	require.Len(t, waited, 10)
	o.end()
	samples := o.waits(blocked, program.Process.Pid)
	want := map[model.BlockReason]time.Duration{}
	for i, reason := range []model.BlockReason{
		model.BlockLock, model.BlockSleep, model.BlockSleep, model.BlockSleep, model.BlockNetwork, model.BlockNetwork,
		model.BlockNetwork, model.BlockNetwork, model.BlockOther, model.BlockOther,
	} {
		want[reason] += waited[i]
	}
	tolerance := 0.02
	if emulated {
		tolerance = 0.15 // the program's looks at the clock have the time in them that an emulated CPU stands still
	}
	untimed := below("pthread_barrier_wait") // where two threads begin, which the program does not time
	for reason, expected := range want {
		got := total(samples, func(s *model.Sample) bool { return because(reason)(s) && !untimed(s) })
		require.InDelta(t, expected.Seconds(), got.Seconds(), tolerance, "%s", reason)
	}
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

// TestPageFaultWaits holds that a thread that waits for its memory is recorded so, below the code that touched it, for as long
// as the process that serves the memory kept it waiting.
func TestPageFaultWaits(t *testing.T) {
	needRoot(t)
	blocked := testbin.C(t, "testdata/blocked.c")
	o := begin(t, waiting(process.Selector{Exe: blocked}))
	o.makeTables(blocked, "mixed", milliseconds(time.Minute)) // else the first wait may come before the tables
	program := launch(t, blocked, "fault")
	numbers := program.end()
	require.Len(t, numbers, 4)
	o.end()
	samples := o.waits(blocked, program.Process.Pid)
	off, held := numbers[0]+numbers[1], numbers[2]+numbers[3]
	reported := total(samples, func(s *model.Sample) bool {
		return s.BlockReason == model.BlockPageFault && below("main touch")(s)
	})
	t.Logf("kept waiting for %s, off the CPU %s, reported %s", held, off, reported)
	require.GreaterOrEqual(t, reported, held-held/100)
	if emulated {
		off += off / 5 // between the looks at the clock an emulated CPU stands still now and then
	}
	require.LessOrEqual(t, reported, off+off/50, "the kernel takes the switches themselves for the thread's own time")
}
