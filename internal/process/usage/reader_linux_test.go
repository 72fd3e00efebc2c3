// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package usage

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

func open(t testing.TB, processes uint32) *Reader {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	r, err := Open(kernel.NewLoader(), processes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func self(t testing.TB) model.ProcessID {
	t.Helper()
	return identity(t, os.Getpid())
}

func identity(t testing.TB, pid int) model.ProcessID {
	t.Helper()
	table, err := process.New(process.Config{})
	require.NoError(t, err)
	p, _, err := table.LookupPID(uint32(pid))
	require.NoError(t, err)
	return p.ID
}

// used is the CPU time of this process by getrusage.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &u))
	return time.Duration(u.Nano())
}

// TestUsage compares with the figures that the kernel gives the process itself.
func TestUsage(t *testing.T) {
	r := open(t, 8)
	id := self(t)
	require.NoError(t, r.Add(id))
	_, ok := r.Of(id)
	require.False(t, ok, "nothing was read")
	const threads = 12
	held, done := make(chan struct{}), make(chan struct{})
	for range threads {
		go func() {
			runtime.LockOSThread() // never unlocked: the thread exits with the goroutine, and its time stays the process's
			done <- struct{}{}
			<-held
			done <- struct{}{}
		}()
	}
	for range threads {
		<-done
	}
	for spin := used(t) + 100*time.Millisecond; used(t) < spin; {
	}
	before := used(t)
	require.NoError(t, r.Read())
	got, ok := r.Of(id)
	after := used(t)
	require.True(t, ok)
	// The kernel counts what runs at its ticks.
	require.GreaterOrEqual(t, got.CPU, before-50*time.Millisecond)
	require.LessOrEqual(t, got.CPU, after)
	require.GreaterOrEqual(t, got.Threads, threads)
	listed, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	require.InDelta(t, len(listed), got.Threads, 16, "Go starts threads as it likes")
	close(held)
	for range threads {
		<-done
	}
	require.Eventually(t, func() bool {
		require.NoError(t, r.Read())
		now, ok := r.Of(id)
		require.True(t, ok)
		require.GreaterOrEqual(t, now.CPU, before-50*time.Millisecond, "of threads that have ended, too")
		return now.Threads <= got.Threads-threads/2
	}, time.Minute, 20*time.Millisecond)
}

// TestProcessesEnd checks that a process that has exited is distinguished from a later one with its pid.
func TestProcessesEnd(t *testing.T) {
	r := open(t, 2)
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	id := identity(t, child.Process.Pid)
	other := model.ProcessID{PID: id.PID, StartTicks: id.StartTicks + 1}
	require.NoError(t, r.Add(id))
	require.Eventually(t, func() bool { // until it has started what threads it has
		require.NoError(t, r.Read())
		u, ok := r.Of(id)
		require.True(t, ok)
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", id.PID))
		require.NoError(t, err)
		return u.Threads == len(threads)
	}, time.Minute, 20*time.Millisecond)
	_, ok := r.Of(other)
	require.False(t, ok)

	require.NoError(t, r.Add(other), "in its slot")
	require.NoError(t, r.Read())
	_, ok = r.Of(other)
	require.False(t, ok, "another process has the pid")
	require.NoError(t, r.Remove(id), "it is no more")
	require.NoError(t, r.Add(id))
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait(), "it was killed")
	require.NoError(t, r.Read())
	_, ok = r.Of(id)
	require.False(t, ok)
	require.NoError(t, r.Remove(id))
	require.NoError(t, r.Remove(id), "once more is no error")
}

func TestFull(t *testing.T) {
	r := open(t, 2)
	for round := range uint32(3) {
		for pid := range uint32(2) {
			require.NoError(t, r.Add(model.ProcessID{PID: 100*round + pid + 1}))
		}
		require.ErrorIs(t, r.Add(model.ProcessID{PID: 99}), ErrFull)
		for pid := range uint32(2) {
			require.NoError(t, r.Remove(model.ProcessID{PID: 100*round + pid + 1}))
		}
	}
	require.NotZero(t, r.MapBytes())
}

// BenchmarkRead reads this host, none of whose processes is watched.
func BenchmarkRead(b *testing.B) {
	r := open(b, 16384)
	require.NoError(b, r.Add(self(b)))
	for b.Loop() {
		require.NoError(b, r.Read())
	}
}
