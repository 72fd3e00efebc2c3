// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package conntrack

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// TestNamespaceOfAnEndedMainThread checks that the network namespace of a process is found as long as any thread of it runs.
func TestNamespaceOfAnEndedMainThread(t *testing.T) {
	guest.SameOnEveryKernel(t)
	var own unix.Stat_t
	require.NoError(t, unix.Stat("/proc/self/ns/net", &own))
	cmd := exec.Command(testbin.C(t, "../engine/testdata/leaderless.c"), "60000", "0")
	require.NoError(t, cmd.Start())
	pid := strconv.Itoa(cmd.Process.Pid)
	require.Eventually(t, func() bool { _, err := os.Readlink("/proc/" + pid + "/ns/net"); return err != nil }, time.Minute, time.Millisecond)
	file, inode, err := openNamespace("/proc", pid, own.Ino)
	require.NoError(t, err)
	require.Equal(t, own.Ino, inode)
	require.NoError(t, file.Close())

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "it was killed")
	_, _, err = openNamespace("/proc", pid, own.Ino)
	require.ErrorIs(t, err, errGone)
}
