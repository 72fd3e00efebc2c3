// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMappingWatch(t *testing.T) {
	needRoot(t)
	mapCode := mapper(t)
	before := openFiles(t)
	online, err := OnlineCPUs("/sys")
	require.NoError(t, err)
	w, err := WatchMappings(online)
	require.NoError(t, err)
	pids := make(chan uint32, 1000)
	ended := make(chan error, 1)
	go func() {
		for {
			if err := w.Read(func(pid uint32) { pids <- pid }); err != nil {
				ended <- err
				return
			}
		}
	}()
	waitFor := func(want int) {
		t.Helper()
		late := time.After(time.Minute)
		for {
			select {
			case pid := <-pids:
				if int(pid) == want {
					return
				}
			case <-late:
				t.Fatalf("no mapping of process %d was reported", want)
			}
		}
	}
	mapCode()
	waitFor(os.Getpid())
	child := exec.Command("true")
	require.NoError(t, child.Run())
	waitFor(child.Process.Pid)
	require.NoError(t, w.Follow(online), "as after a CPU came back")
	mapCode()
	waitFor(os.Getpid())
	require.NoError(t, w.Stop())
	require.ErrorIs(t, <-ended, os.ErrClosed)
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Follow(online), os.ErrClosed)
	require.Equal(t, before, openFiles(t))
}

// TestMappingWatchThatFails checks that nothing is left of a watch for which there are no descriptors.
func TestMappingWatchThatFails(t *testing.T) {
	needRoot(t)
	online, err := OnlineCPUs("/sys")
	require.NoError(t, err)
	before := openFiles(t)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	few := limit
	for few.Cur = 1; ; few.Cur++ {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
		w, err := WatchMappings(online)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		require.ErrorIs(t, err, unix.EMFILE)
		require.Nil(t, w)
		require.Equal(t, before, openFiles(t))
		if strings.HasPrefix(err.Error(), "watching for mappings of code: opening an event on CPU 0: ") {
			return // there was capacity for all but the events
		}
	}
}

// TestMappingWatchWraps maps more often than the ring has space for, with and without a reader.
func TestMappingWatchWraps(t *testing.T) {
	needRoot(t)
	online, err := OnlineCPUs("/sys")
	require.NoError(t, err)
	w, err := WatchMappings(online)
	require.NoError(t, err)
	// One CPU, so that one ring fills and its next record reports the loss.
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	var one unix.CPUSet
	one.Set(online[0])
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	const times = 2000
	seen := 0
	count := func(pid uint32) {
		if int(pid) == os.Getpid() {
			seen++
		}
	}
	mapCode := mapper(t)
	mapMany := func(n int) {
		for range n {
			mapCode()
		}
	}
	lost := w.Lost()
	// Other programs map code on this CPU, too: while the reader stands still they may fill the ring. Then it is tried again.
	for began := time.Now(); seen != times || w.Lost() != lost; {
		require.Less(t, time.Since(began), time.Minute, "%d of %d seen, %d lost", seen, times, w.Lost()-lost)
		seen, lost = 0, w.Lost()
		for range times / 20 {
			mapMany(20)
			require.NoError(t, w.Read(count))
		}
	}
	mapMany(times)
	require.NoError(t, w.Read(count))
	mapMany(1) // the kernel reports a loss with the next record
	require.NoError(t, w.Read(count))
	require.GreaterOrEqual(t, uint64(seen)+w.Lost()-lost, uint64(2*times+1), "those of others and of no file are among the lost ones")
	require.Greater(t, w.Lost(), lost)
	require.NoError(t, w.Stop())
	require.ErrorIs(t, w.Read(count), os.ErrClosed)
	require.NoError(t, w.Close())
}

// TestMappingWatchIsNotWokenByEach checks that a process that maps code repeatedly wakes the reader once, and that it can be woken again
// after a pause.
func TestMappingWatchIsNotWokenByEach(t *testing.T) {
	needRoot(t)
	online, err := OnlineCPUs("/sys")
	require.NoError(t, err)
	w, err := WatchMappings(online)
	require.NoError(t, err)
	var seen, reads atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for {
			err := w.Read(func(pid uint32) {
				if int(pid) == os.Getpid() {
					seen.Add(1)
				}
			})
			if err != nil {
				ended <- err
				return
			}
			reads.Add(1)
		}
	}()
	mapCode := mapper(t)
	const times = 300
	began := time.Now()
	for range times {
		mapCode()
		time.Sleep(time.Millisecond)
	}
	// While the reader stands still, others may fill the ring: what is lost then is counted.
	require.Eventually(t, func() bool { return seen.Load()+int64(w.Lost()) >= times }, time.Minute, time.Millisecond)
	require.LessOrEqual(t, seen.Load(), int64(times))
	looked := reads.Load()
	looks := int64(2+time.Since(began)/mappingBusy) * int64(len(online)) // a CPU may begin with each
	require.LessOrEqual(t, looked, looks)
	require.Eventually(t, func() bool { return w.patience() < 0 }, time.Minute, 5*time.Millisecond, "all bells are on again")
	before := seen.Load() + int64(w.Lost())
	mapCode()
	require.Eventually(t, func() bool { return seen.Load()+int64(w.Lost()) > before }, time.Minute, time.Millisecond)
	require.NoError(t, w.Stop())
	require.ErrorIs(t, <-ended, os.ErrClosed)
	require.NoError(t, w.Close())
}

// mapper returns a function that maps a file as code, and anonymous memory, which is not reported.
func mapper(t *testing.T) func() {
	t.Helper()
	file, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return func() {
		code, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		require.NoError(t, err)
		require.NoError(t, unix.Munmap(code))
		code, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		require.NoError(t, err)
		require.NoError(t, unix.Munmap(code))
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}
