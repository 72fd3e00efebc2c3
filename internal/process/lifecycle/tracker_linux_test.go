// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package lifecycle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
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

// startTicks reads field 22 of /proc/PID/stat.
func startTicks(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	rest := string(text[strings.LastIndexByte(string(text), ')')+2:])
	ticks, err := strconv.ParseUint(strings.Fields(rest)[22-3], 10, 64)
	require.NoError(t, err)
	return ticks
}

// pending returns what the kernel has told of a process so far.
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
	_, err = stdout.Read(make([]byte, 1)) // Start returns within the exec, before it is told
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
	require.Equal(t, Losses{}, losses)
}

func TestThreadsAreNoProcesses(t *testing.T) {
	tracker := start(t, 64)
	done := make(chan struct{})
	for range 8 { // more goroutines than CPUs, each with a thread of its own
		go func() {
			defer func() { done <- struct{}{} }()
			runtime.LockOSThread() // and end with it: the thread ends, too
		}()
	}
	for range 8 {
		<-done
	}
	require.Empty(t, pending(t, tracker, uint32(os.Getpid())))
}

func TestDecisions(t *testing.T) {
	tracker := start(t, 4)
	state := func(pid uint32) uint32 {
		var value bindings.ProcessScopeEntry
		require.NoError(t, tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(pid, &value))
		return value.Bits
	}
	const decided = uint32(bindings.ProcessScopeBitSCOPE_DECIDED)
	require.NoError(t, tracker.Decide(1, ScopeOnCPU))
	require.Equal(t, decided|1, state(1))
	require.NoError(t, tracker.Decide(1, ScopeNone))
	require.Equal(t, decided, state(1))

	require.NoError(t, tracker.Answer(2, 0, ScopeOnCPU, 7), "nobody asked")
	var value bindings.ProcessScopeEntry
	require.ErrorIs(t, tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(uint32(2), &value), ebpf.ErrKeyNotExist)
	require.NoError(t, tracker.SharedMaps()[bindings.ProcessMapScope].Put(uint32(2), value))
	require.NoError(t, tracker.Answer(2, 0, ScopeOnCPU, 7))
	require.Equal(t, decided|1, state(2))
	require.NoError(t, tracker.SharedMaps()[bindings.ProcessMapScope].Lookup(uint32(2), &value))
	require.Equal(t, uint32(7), value.Space)

	asked, err := tracker.Ask(3, 5)
	require.NoError(t, err)
	require.True(t, asked)
	require.NoError(t, tracker.Void(3, 4), "of the program before")
	require.True(t, tracker.Knows(3))
	require.NoError(t, tracker.Void(3, 5))
	require.NoError(t, tracker.Void(3, 5), "once more is no error")
	require.False(t, tracker.Knows(3))

	pids, err := tracker.Decided()
	require.NoError(t, err)
	require.ElementsMatch(t, []uint32{1, 2}, pids)
	require.True(t, tracker.Knows(1))
	require.NoError(t, tracker.Forget(1))
	require.NoError(t, tracker.Forget(1), "once more is no error")
	require.False(t, tracker.Knows(1))
	pids, err = tracker.Decided()
	require.NoError(t, err)
	require.Equal(t, []uint32{2}, pids)

	require.NoError(t, tracker.Decide(3, ScopeNone))
	require.NoError(t, tracker.Decide(4, ScopeNone))
	require.NoError(t, tracker.Decide(5, ScopeNone))
	require.ErrorContains(t, tracker.Decide(6, ScopeNone), "writing the scope of process 6: ", "the map is full")
}

// TestExecVoidsDecisions holds that exec removes what was decided about the pid and that exit leaves it: the last
// thread may be sampled after its exit event.
func TestExecVoidsDecisions(t *testing.T) {
	tracker := start(t, 64)
	child := exec.Command("sh", "-c", "read go; exec sleep 60")
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	pid := uint32(child.Process.Pid)
	require.NoError(t, tracker.Decide(pid, ScopeOnCPU))
	_, err = io.WriteString(stdin, "go\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !slices.Contains(decided(t, tracker), pid) }, 10*time.Second, 5*time.Millisecond)

	require.NoError(t, tracker.Decide(pid, ScopeOnCPU))
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait(), "it was killed")
	require.Contains(t, decided(t, tracker), pid)
	require.NoError(t, tracker.Forget(pid))
	require.NotContains(t, decided(t, tracker), pid)
}

// TestForksBorrowTables holds that a fork goes on with its parent's unwind tables for a while, a fork of a fork no longer than that,
// and that an exec and the exit take them away.
func TestForksBorrowTables(t *testing.T) {
	tracker := start(t, 64)
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
		((read go; exec sleep 60) <&3 & echo inner $!; wait) & echo outer $!; wait`)
	stdin, err := shell.StdinPipe()
	require.NoError(t, err)
	stdout, err := shell.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, shell.Start())
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
	hear("shell") // its exec is over: that would take the decision away
	const tables, lent = 7<<16 | 3, uint64(1500 * time.Millisecond)
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
		Bits: uint32(bindings.ProcessScopeBitSCOPE_FORKED), Space: tables, LentUntil: outer.LentUntil,
	}, outer)
	require.GreaterOrEqual(t, outer.LentUntil, before+lent)
	require.LessOrEqual(t, outer.LentUntil, after+lent)
	inner, known := entry(pids["inner"])
	require.True(t, known)
	require.Equal(t, outer, inner, "no longer than whom it has them from")
	require.Equal(t, []uint32{uint32(shell.Process.Pid)}, decided(t, tracker), "nobody has asked about forks")

	_, err = io.WriteString(stdin, "go\n")
	require.NoError(t, err)
	require.Eventually(t, gone(pids["inner"]), 10*time.Second, 5*time.Millisecond, "it runs another program")
	require.False(t, gone(pids["outer"])())
	require.NoError(t, unix.Kill(int(pids["inner"]), unix.SIGKILL))
	require.NoError(t, shell.Wait())
	require.True(t, gone(pids["outer"])(), "it has ended")
	require.Equal(t, []uint32{uint32(shell.Process.Pid)}, decided(t, tracker), "a decision stays")
}

func monotonic(t *testing.T) uint64 {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return uint64(now.Nano())
}

// TestAnswerNeedsQuestion holds that an answer is written only where the question still stands.
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
	require.Equal(t, uint32(256<<10), tracker.SharedMaps()[bindings.ProcessMapProcessEvents].MaxEntries())
	require.Len(t, tracker.SharedMaps(), 3)
}

// TestRingFull holds that an event that finds no place is counted.
func TestRingFull(t *testing.T) {
	if testing.Short() || guest.Running() {
		t.Skip("starts thousands of processes")
	}
	tracker := start(t, 64)
	events := uint64(0)
	capacity := uint64(tracker.SharedMaps()[bindings.ProcessMapProcessEvents].MaxEntries()) / (eventSize + 8) // and 8 bytes of head
	for losses := (Losses{}); losses.RingFull == 0; events += 3 {
		require.Less(t, events, 2*capacity, "the ring must be full by now")
		require.NoError(t, exec.Command("true").Run())
		var err error
		losses, err = tracker.Losses()
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, events+3, capacity/2)
}
