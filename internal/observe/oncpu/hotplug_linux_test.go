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

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	all.Set(1) // it left the set when the CPU went
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &all)) }()
	one.Set(1)
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	s.drain()
	s.Report(time.Now()) // what comes now of this thread is of CPU 1
	s.until("CPU 1 is sampled", func() bool {
		for range 100 {
			_ = descend(50) // keeps the CPU busy
		}
		s.drain()
		for _, p := range s.Report(time.Now()).Profiles {
			for _, one := range p.Samples {
				if one.ThreadID == uint32(unix.Gettid()) {
					return true
				}
			}
		}
		return false
	})
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
	s.until("sampling goes on", func() bool {
		time.Sleep(s.DrainInterval())
		s.drain()
		return s.Samples()-before > 30
	})
	close(stop)

	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, s.events.follow(online))
	require.Equal(t, cpus, s.Attached())
}
