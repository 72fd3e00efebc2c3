// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
)

func TestRingFill(t *testing.T) {
	var none ringFill
	none.sample(time.Unix(1000, 0))
	require.Zero(t, none.highest.value())
	require.NoError(t, none.close())

	r := ringFill{positions: make([]byte, 2*os.Getpagesize()), size: 1 << 20}
	set := func(consumer, producer uint64) {
		binary.NativeEndian.PutUint64(r.positions, consumer)
		binary.NativeEndian.PutUint64(r.positions[os.Getpagesize():], producer)
		r.highest = highest{}
		r.sample(time.Unix(1000, 0))
	}
	set(5<<40, 5<<40)
	require.Zero(t, r.highest.value())
	set(5<<40, 5<<40+1<<18)
	require.Equal(t, 0.25, r.highest.value())
	set(0, 3<<20) // read far apart
	require.Equal(t, 1.0, r.highest.value())
}

// TestMapFill lets many processes live, whose events wake no reader.
func TestMapFill(t *testing.T) {
	config := configuration(time.Second)
	planOf[*oncpu.Options](config).UserStacks = false // so that no program is read when it is exec'ed
	e := begin(t, config)
	fill := e.Stats().MapFill
	require.GreaterOrEqual(t, fill["scope"], 2.0/trackedProcesses, "the receiver itself and the idle task")
	require.Less(t, fill["scope"], 0.5)
	require.Eventually(t, func() bool {
		require.NoError(t, exec.Command("/bin/true").Run())
		return e.Stats().MapFill["process_events"] > 0
	}, time.Minute, time.Millisecond)
	require.LessOrEqual(t, e.Stats().MapFill["process_events"], 1.0)
	e.end()
	require.Contains(t, e.Stats().MapFill, "scope", "it is reported after the end, too")
}

// TestMeasureMapFill lets many processes live between two drains.
func TestMeasureMapFill(t *testing.T) {
	config := configuration(time.Second)
	planOf[*oncpu.Options](config).UserStacks = false // so that no program is read when it is exec'ed
	e := begin(t, config)
	const processes, eventBytes = 100, 48 // 40 and a head of 8
	for range processes {
		require.NoError(t, exec.Command("/bin/true").Run())
	}
	// Of a fork, an exec and an exit each, at least a third waits for the same drain.
	least := float64(processes*eventBytes) / float64(e.tracker.SharedMaps()[bindings.ProcessMapProcessEvents].MaxEntries())
	if emulated {
		least /= processes // they take so long there that each drain sees a few of them
	}
	require.Eventually(t, func() bool { return e.Stats().MapFill["process_events"] >= least },
		10*time.Second, 50*time.Millisecond)
}
