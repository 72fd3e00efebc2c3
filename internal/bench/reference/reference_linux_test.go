// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCounts checks that the reference does what it is compared for: it runs, and counts each run under its stacks.
func TestCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading a BPF program needs root")
	}
	for _, work := range []Work{BothStacks, UserStack} {
		p, err := Start(time.Millisecond, work, runtime.NumCPU())
		require.NoError(t, err)
		for began := time.Now(); ; {
			for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); { //nolint:revive // an idle CPU runs nothing
			}
			cost, err := p.Cost()
			require.NoError(t, err)
			if cost.Runs >= 100 {
				break
			}
			require.Less(t, time.Since(began), time.Minute)
		}
		for _, event := range p.events {
			require.NoError(t, event.Close())
		}
		p.events = nil
		cost, err := p.Cost()
		require.NoError(t, err)
		require.GreaterOrEqual(t, cost.Runs, uint64(100))
		require.Positive(t, cost.Time)

		var key struct {
			PidTgid      uint64
			User, Kernel int32
		}
		var count, sum uint64
		entries := p.counts.Iterate()
		for entries.Next(&key, &count) {
			sum += count
			if work == UserStack {
				require.Zero(t, key.Kernel)
			}
		}
		require.NoError(t, entries.Err())
		require.Equal(t, cost.Runs, sum)
		require.NoError(t, p.Close())
	}
}

// TestUnwinding checks that the floor is one: it runs and leaves the kernel's addresses in its room.
func TestUnwinding(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading a BPF program needs root")
	}
	p, err := Start(time.Millisecond, Unwinding, runtime.NumCPU())
	require.NoError(t, err)
	seen := 0 // stacks of the kernel; the last sample of a CPU may have been taken outside of it
	for began := time.Now(); seen < 10 && time.Since(began) < time.Minute; {
		for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
			_, err := os.ReadFile("/proc/self/maps")
			require.NoError(t, err)
		}
		var perCPU [][frameBytes / 8]uint64
		require.NoError(t, p.room.Lookup(uint32(0), &perCPU))
		for _, stack := range perCPU {
			if stack[0]>>63 == 1 { // the kernel's half
				seen++
			}
		}
	}
	require.Equal(t, 10, min(seen, 10))
	cost, err := p.Cost()
	require.NoError(t, err)
	require.GreaterOrEqual(t, cost.Runs, uint64(10))
	require.NoError(t, p.Close())
}
