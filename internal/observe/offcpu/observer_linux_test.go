// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
)

func config() Config {
	return Config{
		Options:  Options{MinBlock: time.Millisecond, Options: stacks.DefaultOptions()},
		MapBytes: 32 << 20, SampleBytes: 64 << 20, SysRoot: "/sys", ProcRoot: "/proc",
	}
}

// watching is an observer that runs, and those who decide what it sees.
type watching struct {
	*Observer
	t       *testing.T
	tracker *lifecycle.Tracker
	host    *observetest.Host
	seen    map[uint32][]model.Sample // by thread
}

// watch starts an observer; change may change what the kernel is said to have.
func watch(t *testing.T, config Config, change func(*features)) *watching {
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
	has, err := featuresOf(loader, config.SysRoot, config.ProcRoot)
	require.NoError(t, err)
	if change != nil {
		change(&has)
	}
	o, err := start(config, has, loader, tracker.SharedMaps(), host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	if has.alone() {
		require.Equal(t, 1, o.Attached())
		require.Equal(t, errAlone, o.Degraded())
	} else {
		require.Equal(t, 2, o.Attached())
		require.NoError(t, o.Degraded())
	}
	return &watching{Observer: o, t: t, tracker: tracker, host: host, seen: map[uint32][]model.Sample{}}
}

func (w *watching) look() {
	w.t.Helper()
	require.NoError(w.t, w.Drain())
	for _, p := range w.Report(time.Now()).Profiles {
		for _, s := range p.Samples {
			w.seen[s.ThreadID] = append(w.seen[s.ThreadID], s)
		}
	}
}

// reported sums a thread's reported waits of one reason.
func (w *watching) reported(tid int, reason model.BlockReason) (sum time.Duration) {
	for _, s := range w.seen[uint32(tid)] {
		if s.BlockReason == reason {
			sum += time.Duration(s.Values[0])
		}
	}
	return sum
}

// awaitShort looks until the short waits of a thread are reported, which they are when it is gone.
func (w *watching) awaitShort(tid int, asked time.Duration) {
	w.t.Helper()
	w.look()
	for began := time.Now(); w.reported(tid, model.BlockShort) < asked-asked/100; w.look() {
		require.Less(w.t, time.Since(began), time.Minute)
		time.Sleep(time.Millisecond)
	}
}

func (w *watching) loss(reason string) uint64 {
	for _, l := range w.Losses() {
		if l.Reason == reason {
			return l.Count
		}
	}
	panic("no such reason: " + reason)
}

// thread runs do in a thread of its own, which ends with it, and returns its id. Signals of the runtime would divide a wait in two. The
// thread may be one that has waited before.
func thread(do func()) int {
	ids := make(chan int)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var all unix.Sigset_t
		for i := range all.Val {
			all.Val[i] = ^all.Val[i]
		}
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
			panic(err)
		}
		id := unix.Gettid()
		if id == os.Getpid() { // but for this one
			ids <- thread(do)
			return
		}
		do()
		ids <- id
	}()
	return <-ids
}

// sleep lets the kernel's thread wait, not the goroutine, and returns how long it took by the clock.
func sleep(d time.Duration) time.Duration {
	began := time.Now()
	for left := unix.NsecToTimespec(d.Nanoseconds()); ; {
		if err := unix.Nanosleep(&left, &left); err != unix.EINTR {
			return time.Since(began)
		}
	}
}

// between checks that the reported time of waits is at least what was asked for, less what a timer may run before its thread has left the
// CPU, and at most the time that the clock measured.
func between(t *testing.T, asked, took, reported time.Duration) {
	t.Helper()
	if guest.Running() { // an emulated CPU stands still now and then, on either side of a look at the clock
		require.GreaterOrEqual(t, reported, asked/2)
		return
	}
	require.GreaterOrEqual(t, reported, asked-asked/100)
	require.LessOrEqual(t, reported, took)
}

// variants are the ways in which a thread's departure is kept and its return is found.
func variants(t *testing.T, test func(*testing.T, func(*features))) {
	t.Run("as the kernel has it", func(t *testing.T) { test(t, nil) })
	t.Run("threads by id", func(t *testing.T) { test(t, func(f *features) { f.taskStorage = false }) })
	t.Run("at finish_task_switch", func(t *testing.T) {
		finish, err := finishOf("/sys", "/proc")
		require.NoError(t, err)
		if finish == "" {
			t.Skip("the kernel has no kprobes")
		}
		test(t, func(f *features) { f.exitTracepoint, f.finish = false, finish })
	})
	t.Run("as they leave", func(t *testing.T) { test(t, func(f *features) { f.exitTracepoint, f.finish = false, "" }) })
}

// TestWaits checks that long waits are reported with their stacks, short ones together, and none that is out of scope.
func TestWaits(t *testing.T) {
	const long, short = 40 * time.Millisecond, time.Millisecond
	variants(t, func(t *testing.T, change func(*features)) {
		c := config()
		c.MinBlock = long / 2
		began := time.Now()
		w := watch(t, c, change)
		var longest, late time.Duration
		shorts := 5
		tid := thread(func() {
			for range 5 {
				longest += sleep(long)
				if took := sleep(short); took > c.MinBlock/2 { // it has waited for a CPU, too
					late += took
					shorts--
				}
			}
		})
		asked := time.Duration(shorts) * short
		w.awaitShort(tid, asked)
		between(t, 5*long, longest+late, w.reported(tid, model.BlockSleep))
		between(t, asked, time.Since(began)-5*long, w.reported(tid, model.BlockShort))
		frames := 0
		comm, err := os.ReadFile("/proc/self/comm")
		require.NoError(t, err)
		for _, s := range w.seen[uint32(tid)] {
			require.Equal(t, strings.TrimSpace(string(comm)), s.ThreadName)
			if s.BlockReason == model.BlockShort {
				require.Empty(t, s.Frames)
			} else {
				frames = max(frames, len(s.Frames))
			}
		}
		require.Greater(t, frames, 5, "of the kernel and of the program")

		require.NoError(t, w.tracker.Decide(uint32(os.Getpid()), lifecycle.ScopeNone))
		w.look()
		clear(w.seen)
		tid = thread(func() { sleep(long) })
		w.look()
		require.Zero(t, w.reported(tid, model.BlockSleep)) // an idle thread of the runtime may have waited for a lock since before
		require.NoError(t, w.tracker.Decide(uint32(os.Getpid()), lifecycle.ScopeOffCPU))
		w.look() // what was out of scope is looked at again after a drain
		tid = thread(func() { sleep(long) })
		w.look()
		require.NotEmpty(t, w.seen[uint32(tid)])
		for _, reason := range []string{"map_full", "no_table", "threads_full", "untold", "interval_full"} {
			require.Zero(t, w.loss(reason), reason)
		}
		require.NotZero(t, w.Samples())
	})
}

// TestFewStacks checks that only so many stacks are taken where each wait costs one, and that no time is lost by it.
func TestFewStacks(t *testing.T) {
	c := config()
	c.MinBlock = 0
	const waits, asleep = 10_000, 10 * time.Microsecond // each takes six times as long: the kernel's slack of timers
	watched := time.Now()
	w := watch(t, c, func(f *features) { f.exitTracepoint, f.finish = false, "" })
	var reported, without time.Duration
	for without == 0 { // a machine that is slow for a while can take the stack of each wait
		require.Less(t, time.Since(watched), time.Minute, "all stacks are taken")
		var longest time.Duration
		untaken, began := w.loss("stack_untaken"), time.Now()
		tid := thread(func() {
			for range waits {
				longest += sleep(asleep)
			}
		})
		whole := time.Since(began)
		w.look()
		reported = w.reported(tid, model.BlockSleep)
		for _, s := range w.seen[uint32(tid)] {
			if s.BlockReason == model.BlockSleep && len(s.Frames) == 0 {
				without += time.Duration(s.Values[0])
			}
		}
		untaken = w.loss("stack_untaken") - untaken
		t.Logf("asleep for %s, reported %s, of which %s without a stack; %d waits", longest, reported, without, untaken)
		between(t, waits*asleep, time.Since(watched), reported)
		if taken := uint64(2+whole/(100*time.Millisecond)) * 256 * uint64(runtime.NumCPU()); taken < waits {
			require.GreaterOrEqual(t, untaken, waits-taken)
			require.NotZero(t, without)
		}
	}
	require.Less(t, without, reported)
}

// waitBelow sleeps so many calls further down.
//
//go:noinline
func waitBelow(calls int, d time.Duration) time.Duration {
	if calls == 0 {
		return sleep(d)
	}
	return waitBelow(calls-1, d) + 1
}

// TestDeepWaits has waits below more frames than are taken by default.
func TestDeepWaits(t *testing.T) {
	const calls, asleep = 400, 20 * time.Millisecond
	variants(t, func(t *testing.T, change func(*features)) {
		c := config()
		c.MaxDepth = stacks.MaxDepth
		w := watch(t, c, change)
		w.host.Foreign = func(pid uint32) bool { return pid != uint32(os.Getpid()) } // their stacks may be deeper
		tid := thread(func() { waitBelow(calls, asleep) })
		w.look()
		deepest := 0
		for _, s := range w.seen[uint32(tid)] {
			deepest = max(deepest, len(s.Frames))
		}
		require.Greater(t, deepest, calls)
		const threadBytes, others = 112, 1 << 20 // of each thread that is kept by its id; of what does not grow with the tables
		unwinders := uint64(ebpf.MustPossibleCPU()) << 16
		require.LessOrEqual(t, w.MapBytes(), c.MapBytes+threadsByID*threadBytes+others+unwinders)
		require.Zero(t, w.loss("stack_cut"))
	})
}

// TestMaxBlock checks that what waits for too long is counted instead.
func TestMaxBlock(t *testing.T) {
	c := config()
	c.MaxBlock = 400 * time.Millisecond
	w := watch(t, c, nil)
	var within time.Duration
	tid := thread(func() {
		for took := c.MaxBlock; took >= c.MaxBlock; within += took { // until one has certainly waited for less
			took = sleep(50 * time.Millisecond)
		}
		sleep(2 * c.MaxBlock)
	})
	w.look()
	between(t, 50*time.Millisecond, within, w.reported(tid, model.BlockSleep))
	require.NotZero(t, w.loss("over_max_block"))
}

// TestLevels checks that a higher level takes fewer stacks and loses no time.
func TestLevels(t *testing.T) {
	watched := time.Now()
	w := watch(t, config(), nil)
	require.NoError(t, w.SetLevel(7))
	const asleep, minBlock = 10 * time.Millisecond, 128 * time.Millisecond
	tid := 0
	for took := minBlock; took >= minBlock; { // until one has certainly waited for less
		tid = thread(func() { took = sleep(asleep) })
	}
	w.awaitShort(tid, asleep)
	between(t, asleep, time.Since(watched), w.reported(tid, model.BlockShort))
	require.Zero(t, w.reported(tid, model.BlockSleep))
	require.NoError(t, w.SetLevel(0))
	var took time.Duration
	tid = thread(func() { took = sleep(asleep) })
	w.look()
	between(t, asleep, took, w.reported(tid, model.BlockSleep))
}

// waitsIn returns when a thread of this process waits in a read of a file, and has for some ms.
func waitsIn(t *testing.T, tid, fd int) {
	t.Helper()
	folder := fmt.Sprintf("/proc/self/task/%d", tid)
	require.Eventually(t, func() bool { return proctest.WaitsIn(folder, fd, unix.SYS_READ) }, time.Minute, 3*time.Millisecond)
	sleep(3 * time.Millisecond)
}

// TestOutOfScopeMeanwhile checks that no wait is reported of a thread that ran while its process was out of scope: how long it waited is
// not known.
func TestOutOfScopeMeanwhile(t *testing.T) {
	variants(t, func(t *testing.T, change func(*features)) {
		w := watch(t, config(), change)
		pid := uint32(os.Getpid())
		var from, to [2]int
		for i := range from {
			var ends [2]int
			require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
			from[i], to[i] = ends[0], ends[1]
			t.Cleanup(func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) })
		}
		wake := func(i int) {
			_, err := unix.Write(to[i], []byte("x"))
			require.NoError(t, err)
		}
		began, ended := make(chan int, 1), make(chan struct{})
		go func() {
			defer close(ended)
			thread(func() {
				began <- unix.Gettid()
				for _, fd := range from {
					_, _ = unix.Read(fd, make([]byte, 1))
				}
			})
		}()
		tid := <-began
		waitsIn(t, tid, from[0])
		require.NoError(t, w.tracker.Decide(pid, lifecycle.ScopeNone))
		w.look()
		sleep(3 * time.Millisecond) // it is known from then on that the process is out of scope
		wake(0)
		waitsIn(t, tid, from[1]) // it has run in between
		require.NoError(t, w.tracker.Decide(pid, lifecycle.ScopeOffCPU))
		w.look()
		unseen := w.loss("ran_unseen")
		wake(1)
		<-ended
		w.look()
		require.Zero(t, w.reported(tid, model.BlockOther), "%v", w.seen[uint32(tid)])
		require.Greater(t, w.loss("ran_unseen"), unseen)
	})
}

// twoReaders is a program of Python two threads of which read a byte at a time from the descriptors 3 and 4 and answer it.
const twoReaders = `import os, threading
def read(fd):
    while os.read(fd, 1):
        os.write(1, b"x")
for fd in 3, 4:
    threading.Thread(target=read, args=(fd,)).start()`

// TestUnseenRunsAreCounted checks that one wait is counted of a thread that ran unseen while its process was out of scope and came back,
// and that nothing is counted where the process stays out of scope.
func TestUnseenRunsAreCounted(t *testing.T) {
	guest.SameOnEveryKernel(t) // they have no Python
	for name, c := range map[string]struct {
		then lifecycle.Scope
		want uint64
	}{"back in scope": {lifecycle.ScopeOffCPU, 1}, "out of scope": {lifecycle.ScopeNone, 0}} {
		t.Run(name, func(t *testing.T) {
			variants(t, func(t *testing.T, change func(*features)) {
				w := watch(t, config(), change)
				require.NoError(t, w.tracker.Decide(uint32(os.Getpid()), lifecycle.ScopeNone))
				python := exec.Command("python3", "-c", twoReaders)
				answers, err := python.StdoutPipe()
				require.NoError(t, err)
				var to [2]*os.File
				for i := range to {
					from, end, err := os.Pipe()
					require.NoError(t, err)
					python.ExtraFiles, to[i] = append(python.ExtraFiles, from), end
					t.Cleanup(func() { _ = from.Close(); _ = end.Close() })
				}
				require.NoError(t, python.Start())
				t.Cleanup(func() { _ = python.Process.Kill(); _ = python.Wait() })
				pid := uint32(python.Process.Pid)
				decide := func(scope lifecycle.Scope) {
					require.NoError(t, w.tracker.Decide(pid, scope))
					w.look() // scopes are looked up anew
				}
				// wake has a thread run, after a wait longer than min_block.
				wake := func(thread int) {
					waits(t, pid)
					_, err := to[thread].Write([]byte("x"))
					require.NoError(t, err)
					_, err = answers.Read(make([]byte, 1))
					require.NoError(t, err)
					waits(t, pid)
				}
				decide(lifecycle.ScopeOffCPU)
				wake(0)
				wake(1)
				before := w.loss("ran_unseen")
				decide(lifecycle.ScopeNone)
				wake(1) // it is known from then on that the process is out of scope
				wake(0) // unseen
				decide(c.then)
				wake(0)
				w.look()
				require.Equal(t, c.want, w.loss("ran_unseen")-before)
			})
		})
	}
}

// waits returns when all threads of a process sleep, and have for some ms.
func waits(t *testing.T, pid uint32) {
	t.Helper()
	isAwake := func(thread string) bool {
		stat, _ := proctest.ReadStat(thread)
		return stat.State != 'S'
	}
	require.Eventually(t, func() bool { return !slices.ContainsFunc(proctest.Threads(int(pid)), isAwake) }, time.Minute, 3*time.Millisecond)
	sleep(3 * time.Millisecond)
}

// TestRefusedHook checks that where the kernel refuses the hook in which threads run again, waits are measured all the same, and
// the observation says why it is less.
func TestRefusedHook(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	loader := kernel.NewLoader()
	tracker, err := lifecycle.Start(loader, 1<<17)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tracker.Close()) })
	host := observetest.NewHost()
	host.Everybody = true
	has, err := featuresOf(loader, "/sys", "/proc")
	require.NoError(t, err)
	has.exitTracepoint, has.finish = false, "no_such_function"
	o, err := startOrLess(config(), has, loader, tracker.SharedMaps(), host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	require.ErrorIs(t, o.Degraded(), errAttach)
	require.Equal(t, 1, o.Attached())
	w := &watching{Observer: o, t: t, tracker: tracker, seen: map[uint32][]model.Sample{}}
	var took time.Duration
	tid := thread(func() { took = sleep(20 * time.Millisecond) })
	w.look()
	between(t, 20*time.Millisecond, took, w.reported(tid, model.BlockSleep))
}
