// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// exeOf reads the link exe of a folder, "" if there is none, and closes the folder.
func exeOf(t *testing.T, fd int) string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(fd, "exe", buf)
	require.NoError(t, unix.Close(fd))
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// TestOpen checks that the main thread shows a process as long as it runs, then another thread, and none when the process has exited.
func TestOpen(t *testing.T) {
	path := testbin.C(t, "../engine/testdata/leaderless.c")
	cmd := exec.Command(path, "3600000", "0")
	require.NoError(t, cmd.Start())
	pid := uint32(cmd.Process.Pid)
	fd, id, err := Open("/proc", uint32(os.Getpid()))
	require.NoError(t, err)
	require.Equal(t, uint32(os.Getpid()), id)
	require.NoError(t, unix.Close(fd))

	folder := "/proc/" + strconv.Itoa(cmd.Process.Pid)
	require.Eventually(t, func() bool { _, err := os.Readlink(folder + "/exe"); return err != nil }, time.Minute, time.Millisecond)
	fd, id, err = Open("/proc", pid)
	require.NoError(t, err)
	require.NotEqual(t, pid, id)
	require.DirExists(t, filepath.Join(folder, "task", strconv.Itoa(int(id))))
	require.DirExists(t, filepath.Join("/proc", strconv.Itoa(int(id)), "map_files"))
	require.Equal(t, path, exeOf(t, fd))

	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool {
		fd, id, err := Open("/proc", pid)
		require.NoError(t, err)
		return exeOf(t, fd) == "" && id == pid
	}, time.Minute, time.Millisecond)
	main, err := openFolder("/proc", pid)
	require.NoError(t, err)
	_, _, err = Thread("/proc", main, pid)
	require.ErrorIs(t, err, ErrNoThread)
	require.NoError(t, unix.Close(main))
	require.Error(t, cmd.Wait(), "it was killed")
	_, _, err = Open("/proc", pid)
	require.ErrorIs(t, err, unix.ENOENT)
}
