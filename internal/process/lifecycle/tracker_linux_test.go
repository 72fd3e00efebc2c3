// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package lifecycle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
)

func start(t *testing.T, processes uint32) *Tracker {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	tracker, err := Start(kernel.NewLoader(), processes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tracker.Close()) })
	return tracker
}

func startTicks(t *testing.T, pid int) uint64 {
	t.Helper()
	stat, err := proctest.ReadStat(proctest.Process(pid))
	require.NoError(t, err)
	return stat.StartTicks
}

// pending returns the events that the kernel has sent of a process so far.
func pending(t *testing.T, tracker *Tracker, pid uint32) []Event {
	t.Helper()
	require.NoError(t, tracker.Flush())
	var events []Event
	for {
		event, err := tracker.Read()
		if errors.Is(err, ErrFlushed) {
			return events
		}
		require.NoError(t, err)
		if event.PID == pid {
			events = append(events, event)
		}
	}
}

func TestLifeOfAChild(t *testing.T) {
	tracker := start(t, 64)
	child := exec.Command("sh", "-c", "read x; echo; read x")
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	pid := child.Process.Pid
	ticks := startTicks(t, pid)
	_, err = io.WriteString(stdin, "x\n")
	require.NoError(t, err)
	_, err = stdout.Read(make([]byte, 1)) // Start returns within the exec, before its event
	require.NoError(t, err)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait(), "it was killed")

	events := pending(t, tracker, uint32(pid))
	require.Len(t, events, 3)
	require.Equal(t, []EventType{Fork, Exec, Exit}, []EventType{events[0].Type, events[1].Type, events[2].Type})
	require.Equal(t, uint32(os.Getpid()), events[0].ParentPID)
	for i, e := range events {
		require.Equal(t, ticks, model.StartTicks(e.StartBoottime), "event %d: field 22 of stat", i)
		require.Equal(t, events[0].StartBoottime, e.StartBoottime)
	}
	require.Equal(t, []uint32{0, 0}, []uint32{events[1].ParentPID, events[2].ParentPID})
	require.NotEqual(t, events[0].ExecID, events[1].ExecID, "an exec begins another program")
	require.Equal(t, events[1].ExecID, events[2].ExecID)
	losses, err := tracker.Losses()
	require.NoError(t, err)
	require.Zero(t, losses.ScopeFull)
}

func TestThreadsAreNoProcesses(t *testing.T) {
	tracker := start(t, 64)
	done := make(chan struct{})
	for range 8 { // more goroutines than CPUs, each with a thread of its own
		go func() {
			defer func() { done <- struct{}{} }()
			runtime.LockOSThread() // never unlocked: the thread exits with the goroutine
		}()
	}
	for range 8 {
		<-done
	}
	require.Empty(t, pending(t, tracker, uint32(os.Getpid())))
}

func TestDecisions(t *testing.T) {
	tracker := start(t, 4)
	const p = 1 << 22 // above every pid of the host: a process of it may fork
	state := func(pid uint32) uint32 {
		var value bindings.ProcessScopeEntry
		require.NoError(t, tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(pid, &value))
		return value.Bits
	}
	const decided = uint32(bindings.ProcessScopeBitSCOPE_DECIDED)
	require.NoError(t, tracker.Decide(p+1, ScopeOnCPU))
	require.Equal(t, decided|1, state(p+1))
	require.NoError(t, tracker.Decide(p+1, ScopeNone))
	require.Equal(t, decided, state(p+1))

	require.NoError(t, tracker.Answer(p+2, 0, ScopeOnCPU, 7), "not asked")
	var value bindings.ProcessScopeEntry
	require.ErrorIs(t, tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(uint32(p+2), &value), ebpf.ErrKeyNotExist)
	require.NoError(t, tracker.SharedMaps()[bindings.ProcessMapScope].Put(uint32(p+2), value))
	require.NoError(t, tracker.Answer(p+2, 0, ScopeOnCPU, 7))
	require.Equal(t, decided|1, state(p+2))
	require.NoError(t, tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(uint32(p+2), &value))
	require.Equal(t, uint32(7), value.Space)

	asked, err := tracker.Ask(p+3, 5)
	require.NoError(t, err)
	require.True(t, asked)
	require.NoError(t, tracker.Void(p+3, 4), "of the program before")
	require.True(t, tracker.Knows(p+3))
	require.NoError(t, tracker.Void(p+3, 5))
	require.NoError(t, tracker.Void(p+3, 5), "once more is no error")
	require.False(t, tracker.Knows(p+3))

	pids, err := tracker.Decided()
	require.NoError(t, err)
	require.ElementsMatch(t, []uint32{p + 1, p + 2}, pids)
	require.True(t, tracker.Knows(p+1))
	require.NoError(t, tracker.Forget(p+1))
	require.NoError(t, tracker.Forget(p+1), "once more is no error")
	require.False(t, tracker.Knows(p+1))
	pids, err = tracker.Decided()
	require.NoError(t, err)
	require.Equal(t, []uint32{p + 2}, pids)

	require.NoError(t, tracker.Decide(p+3, ScopeNone))
	require.NoError(t, tracker.Decide(p+4, ScopeNone))
	require.NoError(t, tracker.Decide(p+5, ScopeNone))
	require.ErrorContains(t, tracker.Decide(p+6, ScopeNone), fmt.Sprintf("writing the scope of process %d: ", p+6), "the map is full")
}

// TestExecVoidsDecisions checks that exec removes the decision about the pid and that exit leaves it: the last thread may be sampled after
// its exit event.
func TestExecVoidsDecisions(t *testing.T) {
	tracker := start(t, 64)
	child := exec.Command("sh", "-c", "echo; read go; exec sleep 600")
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = stdout.Read(make([]byte, 1)) // Start returns within the exec, before its event
	require.NoError(t, err)
	pid := uint32(child.Process.Pid)
	require.NoError(t, tracker.Decide(pid, ScopeOnCPU))
	_, err = io.WriteString(stdin, "go\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !slices.Contains(decided(t, tracker), pid) }, time.Minute, 5*time.Millisecond)

	require.NoError(t, tracker.Decide(pid, ScopeOnCPU))
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait(), "it was killed")
	require.Contains(t, decided(t, tracker), pid)
	require.NoError(t, tracker.Forget(pid))
	require.NotContains(t, decided(t, tracker), pid)
}

// TestForksBorrowTables checks that a fork uses its parent's unwind tables for a while, a fork of a fork no longer than that, and that an
// exec and the exit end it.
func TestForksBorrowTables(t *testing.T) {
	tracker := start(t, 64)
	for began := time.Now(); !forksBorrowTables(t, tracker); { // the share ended before the last fork
		require.Less(t, time.Since(began), time.Minute)
	}
}

// forksBorrowTables reports whether the forks were made in time.
func forksBorrowTables(t *testing.T, tracker *Tracker) bool {
	t.Helper()
	entry := func(pid uint32) (value bindings.ProcessScopeEntry, known bool) {
		err := tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(pid, &value)
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			require.NoError(t, err)
		}
		return value, err == nil
	}
	gone := func(pid uint32) func() bool {
		return func() bool { _, known := entry(pid); return !known }
	}
	shell := exec.Command("sh", "-c", `exec 3<&0; echo shell $$; read go
		((read go; exec sleep 600) <&3 & echo inner $!; wait) & echo outer $!; wait`)
	stdin, err := shell.StdinPipe()
	require.NoError(t, err)
	stdout, err := shell.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, shell.Start())
	kill := func(pid uint32) {
		if err := unix.Kill(int(pid), unix.SIGKILL); err != unix.ESRCH {
			require.NoError(t, err)
		}
	}
	lines, pids := bufio.NewScanner(stdout), map[string]uint32{}
	hear := func(name string) {
		for pids[name] == 0 && lines.Scan() {
			said, pid, _ := strings.Cut(lines.Text(), " ")
			number, err := strconv.ParseUint(pid, 10, 32)
			require.NoError(t, err)
			pids[said] = uint32(number)
		}
		require.NotZero(t, pids[name], name)
	}
	hear("shell") // its exec is over: that would remove the decision
	const tables, borrowed = 7<<16 | 3, uint64(1500 * time.Millisecond)
	require.NoError(t, tracker.Decide(uint32(shell.Process.Pid), ScopeOnCPU))
	require.NoError(t, tracker.Answer(uint32(shell.Process.Pid), 0, ScopeOnCPU, tables))

	before := monotonic(t)
	_, err = io.WriteString(stdin, "go\n")
	require.NoError(t, err)
	hear("outer")
	hear("inner")
	after := monotonic(t)
	outer, known := entry(pids["outer"])
	require.True(t, known)
	require.Equal(t, bindings.ProcessScopeEntry{
		Bits: uint32(bindings.ProcessScopeBitSCOPE_FORKED), Space: tables, SharedUntil: outer.SharedUntil,
	}, outer)
	if after >= outer.SharedUntil {
		for _, pid := range pids {
			kill(pid)
		}
		require.Error(t, shell.Wait(), "it was killed")
		require.NoError(t, tracker.Forget(uint32(shell.Process.Pid)))
		return false
	}
	require.GreaterOrEqual(t, outer.SharedUntil, before+borrowed)
	require.LessOrEqual(t, outer.SharedUntil, after+borrowed)
	inner, known := entry(pids["inner"])
	require.True(t, known)
	require.Equal(t, outer, inner, "no longer than its parent")
	require.Equal(t, []uint32{uint32(shell.Process.Pid)}, decided(t, tracker), "forks were not asked about")

	_, err = io.WriteString(stdin, "go\n")
	require.NoError(t, err)
	require.Eventually(t, gone(pids["inner"]), time.Minute, 5*time.Millisecond, "it runs another program")
	require.False(t, gone(pids["outer"])())
	kill(pids["inner"])
	require.NoError(t, shell.Wait())
	require.True(t, gone(pids["outer"])(), "it has ended")
	require.Equal(t, []uint32{uint32(shell.Process.Pid)}, decided(t, tracker), "a decision stays")
	return true
}

func monotonic(t *testing.T) uint64 {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return uint64(now.Nano())
}

// TestAnswerNeedsQuestion checks that an answer is written only while the question is open.
func TestAnswerNeedsQuestion(t *testing.T) {
	tracker := start(t, 64)
	const pid = 1 << 22 // above every pid of the host
	entry := func() (value bindings.ProcessScopeEntry) {
		require.NoError(t, tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(uint32(pid), &value))
		return value
	}
	require.NoError(t, tracker.Answer(pid, 5, ScopeOnCPU, 0))
	require.NotContains(t, decided(t, tracker), uint32(pid))
	asked, err := tracker.Ask(pid, 6)
	require.NoError(t, err)
	require.True(t, asked)
	question := entry()
	require.NoError(t, tracker.Answer(pid, 5, ScopeNone, 0))
	require.Equal(t, question, entry(), "an answer about the program before the exec")
	require.NoError(t, tracker.Answer(pid, 6, ScopeOnCPU, 9))
	require.Equal(t, bindings.ProcessScopeEntry{
		Bits: uint32(ScopeOnCPU) | uint32(bindings.ProcessScopeBitSCOPE_DECIDED), Space: 9, ExecId: 6,
	}, entry())
}

func decided(t *testing.T, tracker *Tracker) []uint32 {
	t.Helper()
	pids, err := tracker.Decided()
	require.NoError(t, err)
	return pids
}

func TestReadEndsAtClose(t *testing.T) {
	tracker := start(t, 64)
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := tracker.Read(); err != nil {
				ended <- err
				return
			}
		}
	}()
	require.NoError(t, tracker.StopReading())
	require.ErrorIs(t, <-ended, os.ErrClosed)
	require.NoError(t, tracker.StopReading(), "twice")
	_, err := tracker.Read()
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestPrograms(t *testing.T) {
	tracker := start(t, 64)
	require.Len(t, tracker.Programs(), 3)
	require.Equal(t, uint32(ringSize), tracker.SharedMaps()[bindings.ProcessMapProcessEvents].MaxEntries())
	require.Len(t, tracker.SharedMaps(), 3)
}

// TestRingFull checks that an event that does not fit is counted.
func TestRingFull(t *testing.T) {
	if testing.Short() || guest.Running() {
		t.Skip("starts thousands of processes")
	}
	tracker := start(t, 64)
	events := uint64(0)
	capacity := uint64(tracker.SharedMaps()[bindings.ProcessMapProcessEvents].MaxEntries()) / (eventSize + 8) // and 8 bytes of header
	for losses := (Losses{}); losses.RingFull == 0; events += 3 {
		require.Less(t, events, 2*capacity, "the ring must be full by now")
		require.NoError(t, exec.Command("true").Run())
		var err error
		losses, err = tracker.Losses()
		require.NoError(t, err)
	}
	require.NoError(t, tracker.Flush())
	held := uint64(0)
	for range flushed(t, tracker) { // other programs of the host have their events there, too
		held++
	}
	require.GreaterOrEqual(t, held, capacity/2)
}

// flushed are the events of the host up to a flush.
func flushed(t *testing.T, tracker *Tracker) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		t.Helper()
		for going := true; ; {
			event, err := tracker.Read()
			if errors.Is(err, ErrFlushed) {
				return
			}
			require.NoError(t, err)
			going = going && yield(event)
		}
	}
}

const ringSize = 256 << 10

// ringBytes is what an event takes of the ring buffer, but for a few bytes.
func ringBytes(e Event) int {
	const header = 8
	if e.Type != Exec || e.Executable == "" && len(e.Arguments) == 0 {
		return header + eventSize
	}
	return header + textOffset + len(e.Executable) + len(e.Arguments) + len(e.Environment)
}

// execOf runs a program and returns its exec event. Events come without what the program is while half of the ring buffer is used: if the
// other programs of the host have used so much meanwhile, another one is run.
func execOf(t *testing.T, tracker *Tracker, command func() *exec.Cmd) Event {
	t.Helper()
	for began := time.Now(); ; {
		pending(t, tracker, 0)
		child := command()
		require.NoError(t, child.Run())
		require.NoError(t, tracker.Flush())
		var own []Event
		used := 0
		for event := range flushed(t, tracker) {
			if event.Type == Exec && event.PID == uint32(child.Process.Pid) {
				own = append(own, event)
			}
			used += ringBytes(event)
		}
		if used > ringSize/4 && time.Since(began) < time.Minute {
			continue
		}
		require.Len(t, own, 1)
		return own[0]
	}
}

// TestEnvironmentOfAnExec checks that the environment of a program that exits at once is the one that it was started with.
func TestEnvironmentOfAnExec(t *testing.T) {
	tracker := start(t, 64)
	const name, attributes = "OTEL_SERVICE_NAME=checkout", "OTEL_RESOURCE_ATTRIBUTES=service.instance.id=a-1,team=pay"
	long := "LONG=" + strings.Repeat("x", 300)
	filler := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("A", i, "=b")) // exec.Cmd takes each name once
		}
		return all
	}
	var large []string
	for i := range 300 {
		large = append(large, fmt.Sprint("A", i, "=", strings.Repeat("x", 100<<10/300)))
	}
	for what, c := range map[string]struct {
		environment []string
		want        string
		whole       bool
	}{
		"both":              {[]string{"PATH=/bin", attributes, "X=y", name, "Z="}, name + "\x00" + attributes + "\x00", true},
		"one":               {[]string{name}, name + "\x00", true},
		"none":              {[]string{"PATH=/bin", "OTEL_SERVICE=a", "XOTEL_SERVICE_NAME=b"}, "", true},
		"nothing at all":    {[]string{}, "", true},
		"empty":             {[]string{"OTEL_SERVICE_NAME="}, "OTEL_SERVICE_NAME=\x00", true},
		"behind long ones":  {[]string{long, long, name}, name + "\x00", true},
		"within a long one": {[]string{"L=" + strings.Repeat("x", 1021) + "OTEL_SERVICE_NAME=no"}, "", true},
		"the longest":       {[]string{"OTEL_SERVICE_NAME=" + strings.Repeat("n", 236)}, "OTEL_SERVICE_NAME=" + strings.Repeat("n", 236) + "\x00", true},
		"too long a name":   {[]string{"OTEL_SERVICE_NAME=" + strings.Repeat("n", 237), attributes}, attributes + "\x00", false},
		"too long a list":   {[]string{name, "OTEL_RESOURCE_ATTRIBUTES=" + strings.Repeat("n", 2000)}, name + "\x00", false},
		"behind many":       {append(filler(500), name), name + "\x00", true},
		"behind 100 KiB":    {append(large, name, attributes), name + "\x00" + attributes + "\x00", true},
		"before too many":   {append([]string{name, attributes}, filler(600)...), name + "\x00" + attributes + "\x00", true},
		"behind too many":   {append(filler(600), name), "", false},
	} {
		t.Run(what, func(t *testing.T) {
			event := execOf(t, tracker, func() *exec.Cmd {
				child := exec.Command("true")
				child.Env = c.environment
				return child
			})
			require.Equal(t, c.want, string(event.Environment))
			require.Equal(t, c.whole, event.EnvironmentWhole)
		})
	}
}

// TestProgramOfAnExec checks that the path and the arguments of a program that exits at once are those that /proc showed of it.
func TestProgramOfAnExec(t *testing.T) {
	tracker := start(t, 64)
	truePath, err := exec.LookPath("true")
	require.NoError(t, err)
	truePath, err = filepath.EvalSymlinks(truePath)
	require.NoError(t, err)
	program, err := os.ReadFile(truePath)
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	deep := filepath.Join(dir, strings.Repeat("a/", 40))
	long := filepath.Join(dir, strings.Repeat("b", 255))
	linked := filepath.Join(dir, "link")
	require.NoError(t, os.MkdirAll(deep, 0o755))
	require.NoError(t, os.MkdirAll(long, 0o755))
	for _, at := range []string{deep, long} {
		require.NoError(t, os.WriteFile(filepath.Join(at, "p"), program, 0o755))
	}
	require.NoError(t, os.Symlink(filepath.Join(long, "p"), linked))
	many := strings.Repeat("x", 2000)
	for what, c := range map[string]struct {
		path      string
		arguments []string
		want      string
		shown     string
		cut       bool
	}{
		"plain":         {truePath, []string{"a", "", "b c"}, truePath, "true\x00a\x00\x00b c\x00", false},
		"a link":        {linked, nil, filepath.Join(long, "p"), "true\x00", false},
		"too deep":      {filepath.Join(deep, "p"), nil, "", "true\x00", false},
		"long argument": {truePath, []string{many}, truePath, ("true\x00" + many)[:1024], true},
	} {
		t.Run(what, func(t *testing.T) {
			event := execOf(t, tracker, func() *exec.Cmd {
				child := exec.Command(c.path)
				child.Args = append([]string{"true"}, c.arguments...) // some programs have many names and act by the one that they are called by
				child.Env = []string{"OTEL_SERVICE_NAME=a"}
				return child
			})
			require.Equal(t, c.want, event.Executable)
			require.Equal(t, c.shown, string(event.Arguments))
			require.Equal(t, c.cut, event.ArgumentsCut)
			require.Equal(t, "OTEL_SERVICE_NAME=a\x00", string(event.Environment))
		})
	}
}

// TestEnvironmentsLeaveRoom checks that environments do not fill the ring buffer: from half of it on, events come without them.
func TestEnvironmentsLeaveRoom(t *testing.T) {
	tracker := start(t, 64)
	const half, tolerance = ringSize / 2, 8 << 10
	var lost uint64
	for began := time.Now(); ; {
		pending(t, tracker, 0)
		started := runLongPrograms(t, func(int) {})
		losses, err := tracker.Losses()
		require.NoError(t, err)
		if losses.RingFull > lost && time.Since(began) < time.Minute { // those of other programs of the host have filled it
			lost = losses.RingFull
			continue
		}
		require.Equal(t, lost, losses.RingFull)
		require.NoError(t, tracker.Flush())
		execs, named, used := 0, 0, 0
		for event := range flushed(t, tracker) {
			if event.Type == Exec && slices.Contains(started, event.PID) {
				if execs++; len(event.Environment) > 0 {
					named++
					require.LessOrEqual(t, used, half+tolerance)
				} else {
					require.GreaterOrEqual(t, used, half-tolerance)
				}
			}
			used += ringBytes(event)
		}
		require.Equal(t, longPrograms, execs)
		require.Less(t, named, longPrograms)
		return
	}
}

// longPrograms is a number of programs with long environments that together exceed the ring buffer.
const longPrograms = 300

// runLongPrograms runs them one after the other and returns their process ids. after is called with how many have run.
func runLongPrograms(t *testing.T, after func(programs int)) (pids []uint32) {
	t.Helper()
	for i := range longPrograms {
		child := exec.Command("true")
		child.Env = []string{"OTEL_SERVICE_NAME=a", "OTEL_RESOURCE_ATTRIBUTES=x=" + strings.Repeat("y", 900)}
		require.NoError(t, child.Run())
		pids = append(pids, uint32(child.Process.Pid))
		after(i + 1)
	}
	return pids
}

// TestBurstsWakeTheReader checks that no environment is left out of a burst of execs while the ring buffer is read. Where the reader stands
// still, the burst waits for it when it has woken it.
func TestBurstsWakeTheReader(t *testing.T) {
	tracker := start(t, 64)
	const unread = 72 // of these programs' execs are more than a quarter of the ring buffer, which wakes the reader, and less than half of it
	var reading sync.WaitGroup
	var read atomic.Int64
	var execs []Event
	reading.Go(func() {
		for event := range flushed(t, tracker) {
			if event.Type == Exec {
				if execs = append(execs, event); event.Comm == "true" {
					read.Add(1)
				}
			}
		}
	})
	started := runLongPrograms(t, func(programs int) {
		require.Eventually(t, func() bool { return int64(programs)-read.Load() <= unread }, time.Minute, time.Millisecond, "nothing wakes the reader")
	})
	require.NoError(t, tracker.Flush())
	reading.Wait()
	all, named := 0, 0
	for _, event := range execs {
		if slices.Contains(started, event.PID) { // other programs of the host may have the same name
			if all++; len(event.Environment) > 0 {
				named++
			}
		}
	}
	require.Equal(t, []int{longPrograms, longPrograms}, []int{all, named})
}

// TestPlainExecs checks that the programs load without reading programs at their exec where the kernel refuses that, and that the cause is
// reported.
func TestPlainExecs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	spec, err := bindings.LoadProcess()
	require.NoError(t, err)
	spec.Maps[bindings.ProcessMapScope].MaxEntries = 4
	loader, refused := kernel.NewLoader(), errors.New("operation not permitted")
	coll, less, err := load(func(what string, spec *ebpf.CollectionSpec, maps map[string]*ebpf.Map) (*ebpf.Collection, error) {
		var reads bool
		require.NoError(t, spec.Variables[bindings.ProcessVarReadEnvironment].Get(&reads))
		if reads {
			return nil, refused
		}
		return loader.Load(what, spec, maps)
	}, spec)
	require.NoError(t, err)
	require.ErrorIs(t, less, refused)
	coll.Close()
}

// TestWholeExecs checks that nothing is reported as missing if everything is loaded.
func TestWholeExecs(t *testing.T) {
	require.NoError(t, start(t, 4).Degraded())
}
