// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// TestMeasureSocketBytes checks that sockets take as much of the kernel's memory as is accounted for them: by the kernel's own account, before and
// after they are remembered.
func TestMeasureSocketBytes(t *testing.T) {
	const programs, each = 3, 17000
	all := make([]*nettest.Program, programs)
	for i := range all {
		all[i] = nettest.Start(t, nil)
		all[i].Hoard(each)
	}
	enough := config()
	enough.SocketBytes = 64 << 20
	w := watch(t, enough, nil)
	if !w.features.socketStorage {
		t.Skip("before 5.11 sockets have no storage")
	}
	for _, p := range all {
		require.NoError(t, w.tracker.Decide(uint32(p.PID()), lifecycle.ScopeNetwork))
	}
	known, mapBytes, before := w.sockets.Load(), w.MapBytes(), slabBytes(t)
	require.NoError(t, w.Drain(), "iterates over sockets once more")
	took := slabBytes(t) - before
	w.report()
	t.Logf("%d bytes a socket", took/(programs*each))
	require.GreaterOrEqual(t, w.sockets.Load()-known, uint64(programs*each))
	said := (w.sockets.Load() - known) * socketBytes
	require.InEpsilon(t, float64(said), float64(took), 0.15, "others use the kernel's memory meanwhile")
	require.GreaterOrEqual(t, w.MapBytes(), mapBytes+said)
}

// TestThreadsAreInMapBytes checks that the state of threads is included in MapBytes.
func TestThreadsAreInMapBytes(t *testing.T) {
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	var o Observer
	o.config.ProcRoot = "/proc"
	require.NoError(t, o.countThreads())
	require.GreaterOrEqual(t, o.threads.Load(), uint64(len(tasks)))
	o.features.socketStorage = true
	before := o.MapBytes()
	o.features.taskStorage = true
	require.Equal(t, o.threads.Load()*taskBytes, o.MapBytes()+threadsByID*threadBytes-before)
	o.config.ProcRoot = t.TempDir()
	require.ErrorIs(t, o.countThreads(), os.ErrNotExist)
}

// slabBytes returns what the kernel keeps in objects that have no cache of their own, as those of sockets' storage: of the whole host,
// without its files, directories and tasks.
func slabBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/slabinfo")
	if os.IsNotExist(err) {
		t.Skip("the kernel does not report what its caches hold (CONFIG_SLUB_DEBUG)")
	}
	require.NoError(t, err)
	var sum int64
	for line := range strings.Lines(string(text)) {
		var name string
		var active, objects, size int64
		if _, err := fmt.Sscan(line, &name, &active, &objects, &size); err == nil && strings.HasPrefix(name, "kmalloc-") {
			sum += active * size
		}
	}
	require.Positive(t, sum)
	return sum
}
