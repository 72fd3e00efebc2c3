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

// TestCPUBackBeforeAnybodyLooks holds that a CPU is sampled again also when it went and came between two looks: its
// events died with it, and nothing but the message tells so.
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
