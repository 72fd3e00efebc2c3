// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// allowFiles sets how many files this process may have open.
func allowFiles(t *testing.T, files uint64) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	limit.Cur = files
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}

// TestLoadWithFewFiles checks that a load without enough file descriptors is refused before the library that loads caches that the kernel
// lacks features that it could not probe.
func TestLoadWithFewFiles(t *testing.T) {
	needRoot(t)
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	t.Cleanup(func() { allowFiles(t, before.Cur) })
	next, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(next))
	for few := range uint64(filesToSpare) {
		allowFiles(t, uint64(next)+few)
		_, err = NewLoader().Load("the counting program", counting(), nil)
		require.ErrorIs(t, err, unix.EMFILE, "%d files", few)
		require.ErrorContains(t, err, "loading the counting program: opening 16 files")
	}
	allowFiles(t, before.Cur)
	coll, err := NewLoader().Load("the counting program", counting(), nil)
	require.NoError(t, err)
	defer coll.Close()
	info, err := coll.Programs["count"].Info()
	require.NoError(t, err)
	require.Equal(t, "count", info.Name, "names are not taken for a thing that the kernel lacks")
}

// TestLeftOut checks that CPUs are reported as left out until they are tried again.
func TestLeftOut(t *testing.T) {
	needRoot(t)
	coll, err := NewLoader().Load("the counting program", counting(), nil)
	require.NoError(t, err)
	defer coll.Close()
	events := PerfEvents{Program: coll.Programs["count"]}
	require.NoError(t, events.Follow([]int{0}, time.Second))
	few := fmt.Errorf("CPU 1: %w", unix.EMFILE)
	require.NoError(t, events.Partly(few))
	require.Equal(t, few, events.LeftOut())
	require.NoError(t, events.Follow([]int{0}, time.Second))
	require.NoError(t, events.LeftOut())
	require.NoError(t, events.Close())
	require.Equal(t, few, events.Partly(few), "nothing is observed")
}
