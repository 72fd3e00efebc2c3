// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/patience"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// TestLeftAloneLeavesNothingOpen makes calls about files on a device that must not be asked.
func TestLeftAloneLeavesNothingOpen(t *testing.T) {
	p := procfs{root: "/", files: patience.New()}
	fd, err := open("/proc/version", unix.O_PATH)
	require.NoError(t, err)
	l := &located{procfs: p, fd: fd, path: "/proc/version"}
	l.stat, err = fstat(p.files, fd, remote)
	require.NoError(t, err)
	require.True(t, patience.MayHang(l.stat.Dev), "proc has no driver") //nolint:unconvert // differs by architecture
	before := openFiles()
	for _, dev := range []uint64{remote, l.stat.Dev} { //nolint:unconvert // differs by architecture
		p.files.Avoid(dev, time.Now().Add(time.Minute))
	}
	for range 10 {
		_, err = fstat(p.files, fd, remote)
		require.ErrorIs(t, err, reason.ErrNoAnswer)
		_, err = l.open()
		require.ErrorIs(t, err, reason.ErrNoAnswer)
	}
	require.Equal(t, before, openFiles())
	require.NoError(t, l.close())
}
