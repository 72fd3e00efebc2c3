// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// TestCPUBackBeforeAnybodyLooks checks that a CPU is sampled again also if it went offline and came back between two scans: its events
// ended with it, and only the message shows this.
func TestCPUBackBeforeAnybodyLooks(t *testing.T) {
	const file = "/sys/devices/system/cpu/cpu1/online"
	s := sample(t, config(time.Millisecond))
	turn := func(state string) error { return os.WriteFile(file, []byte(state), 0o644) }
	if err := turn("0"); err != nil {
		t.Skipf("CPU 1 cannot be taken off line here: %v", err)
	}
	require.NoError(t, turn("1"))
	require.NoError(t, s.CPUsChanged())
	s.drain()
	before := s.Samples()

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	all.Set(1) // it left the set when the CPU went
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &all)) }()
	one.Set(1)
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	start, err := kernel.ThreadCPUTime()
	require.NoError(t, err)
	for used := time.Duration(0); used < 200*time.Millisecond; {
		now, err := kernel.ThreadCPUTime()
		require.NoError(t, err)
		used = now - start
	}
	s.drain()
	least := uint64(120)
	if emulated {
		least = 40 // its timer stands still now and then
	}
	require.Greater(t, s.Samples()-before, least)
}

// TestNoDescriptorsLeft checks that sampling goes on where no events can be opened, and that a change of the period
// needs none.
func TestNoDescriptorsLeft(t *testing.T) {
	s := sample(t, config(time.Millisecond))
	cpus := s.Attached()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	online := make([]int, cpus)
	for i := range online {
		online[i] = i
	}
	require.ErrorIs(t, s.events.follow(online), unix.EMFILE)
	require.Equal(t, cpus, s.Attached(), "the old events stay")
	require.NoError(t, s.SetLevel(1))
	s.drain()
	before := s.Samples()
	stop := make(chan struct{})
	go func() { burn(stop) }()
	time.Sleep(300 * time.Millisecond)
	close(stop)
	s.drain()
	require.Greater(t, s.Samples()-before, uint64(30), "one CPU for 300 ms at 2 ms")

	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, s.events.follow(online))
	require.Equal(t, cpus, s.Attached())
}
