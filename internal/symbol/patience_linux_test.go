// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLeftAloneLeavesNothingOpen asks about files on a device that is left alone.
func TestLeftAloneLeavesNothingOpen(t *testing.T) {
	p := procfs{root: "/", files: newPatience()}
	fd, err := open("/proc/version", unix.O_PATH)
	require.NoError(t, err)
	l := &located{procfs: p, fd: fd, path: "/proc/version"}
	l.stat, err = p.files.stat(fd, remote)
	require.NoError(t, err)
	require.True(t, mayHang(l.stat.Dev), "proc has no driver") //nolint:unconvert // differs by architecture
	before := openFiles()
	for _, dev := range []uint64{remote, l.stat.Dev} { //nolint:unconvert // differs by architecture
		p.files.silent[dev] = time.Now().Add(time.Minute)
	}
	for range 10 {
		_, err = p.files.stat(fd, remote)
		require.ErrorIs(t, err, errNoAnswer)
		_, err = l.open()
		require.ErrorIs(t, err, errNoAnswer)
	}
	require.Equal(t, before, openFiles())
	require.NoError(t, l.close())
}
