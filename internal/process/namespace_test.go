// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestCheckPIDNamespace(t *testing.T) {
	h := newFakeHost(t)
	err := CheckPIDNamespace(h.root)
	require.ErrorContains(t, err, "finding the pid namespace: readlink "+h.root+"/proc/1/ns/pid: ")
	require.ErrorContains(t, err, "set root_path to where the host's file system")
	h.link("proc/self/ns/pid", "pid:[4026531836]")
	require.NoError(t, CheckPIDNamespace(h.root), "with hidepid=2 one's own processes alone are there")
	h.link("proc/1/ns/pid", "pid:[4026531836]")
	require.NoError(t, CheckPIDNamespace(h.root))
	h.link("proc/1/ns/pid", "pid:[4026532000]")
	err = CheckPIDNamespace(h.root)
	require.ErrorIs(t, err, ErrPIDNamespace)
	require.ErrorContains(t, err, "/proc/1/ns/pid is pid:[4026532000]: the pid namespace is not the host's: run with hostPID: true")

	mounted := newFakeHost(t) // the host's /proc, in a container with a namespace of its own that may not read pid 1
	mounted.link("proc/self/ns/pid", "pid:[4026532000]")
	require.ErrorIs(t, CheckPIDNamespace(mounted.root), ErrPIDNamespace)
	mounted.write("proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 18446744073709551615 0 0 0 0 0 0 0\n")
	require.ErrorIs(t, CheckPIDNamespace(mounted.root), ErrPIDNamespace, "it has the name of the kernel's first thread")
	mounted.write("proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 18446744073709551615 0 0 0 0 0 0 0\n")
	require.NoError(t, CheckPIDNamespace(mounted.root))
}

func TestSelfPID(t *testing.T) {
	h := newFakeHost(t)
	_, err := SelfPID(h.root)
	require.ErrorContains(t, err, "finding the own pid: ")
	h.link("proc/self", "1234")
	pid, err := SelfPID(h.root)
	require.NoError(t, err)
	require.Equal(t, uint32(1234), pid)
	h.link("proc/self", "x")
	_, err = SelfPID(h.root)
	require.ErrorContains(t, err, "invalid syntax")
}

func TestReadFailures(t *testing.T) {
	fs := procFS{root: "/proc", errors: newReadErrors(zap.NewNop(), nil)}
	require.NoError(t, fs.tolerate(7, "environ", nil))
	require.NoError(t, fs.tolerate(7, "exe", syscall.ENOENT), "a leader that ended before its threads")
	for _, errno := range []error{syscall.ENOENT, syscall.ESRCH} {
		err := fs.tolerate(7, "environ", errno)
		require.ErrorIs(t, err, ErrGone)
		require.EqualError(t, err, "reading /proc/7/environ: the process has exited")
	}
	require.Empty(t, fs.errors.snapshot())
	require.NoError(t, fs.tolerate(7, "environ", syscall.EACCES))
	require.NoError(t, fs.tolerate(7, "environ", syscall.EPERM))
	require.NoError(t, fs.tolerate(7, "cgroup", syscall.EIO))
	err := fs.failed(7, "stat", os.ErrPermission)
	require.EqualError(t, err, "reading /proc/7/stat: permission denied")
	require.Equal(t, map[ReadError]uint64{
		{File: "environ", Reason: "permission"}: 2, {File: "cgroup", Reason: "io"}: 1, {File: "stat", Reason: "permission"}: 1,
	}, fs.errors.snapshot())
}

func TestInodeOf(t *testing.T) {
	require.Equal(t, uint64(4026531840), inodeOf([]byte("net:[4026531840]"), "net:["))
	for _, link := range []string{"", "net:[1", "net:[]", "net:[x]", "pid:[1]", "net:[1]2"} {
		require.Zero(t, inodeOf([]byte(link), "net:["), link)
	}
}
