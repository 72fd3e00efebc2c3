// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSelf checks that the files of this kernel are read: this process runs and has memory.
func TestSelf(t *testing.T) {
	const proc = FS("/proc")
	before, err := proc.CPUTime(os.Getpid())
	require.NoError(t, err)
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
	}
	after, err := proc.CPUTime(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, after, before)

	memory, err := proc.Memory(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, memory.Anon)
	require.GreaterOrEqual(t, memory.Peak, memory.RSS)

	if os.Geteuid() == 0 { // else /proc/slabinfo is not to be read
		objects, err := proc.StorageObjects()
		require.NoError(t, err)
		require.Greater(t, objects, uint64(64<<10))
	}

	require.NoError(t, proc.LookAtDescriptors(os.Getpid()))

	idle, err := proc.HostIdle()
	require.NoError(t, err)
	require.Positive(t, idle.CPUs)
}
