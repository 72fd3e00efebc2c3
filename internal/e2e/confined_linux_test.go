// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// confinedBy is the environment variable that has the test binary confine itself, and run the program of its arguments then.
const confinedBy = "E2E_CONFINED_BY"

// confinement is what a program runs without.
type confinement struct {
	// Drop are capabilities.
	Drop []uintptr
	// Bpf has a seccomp filter refuse bpf(2) with EPERM, as container engines do.
	Bpf bool
	// Tracefs mounts it at /sys/kernel/tracing; false: it is mounted nowhere.
	Tracefs bool
}

// runningWith has a program started so.
func runningWith(t *testing.T, how confinement) func(*exec.Cmd) {
	t.Helper()
	text, err := json.Marshal(how)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{self}, cmd.Args...)
		cmd.Path = self
		cmd.Env = append(os.Environ(), confinedBy+"="+string(text))
	}
}

// runConfined confines the process by the variable's value and executes what its arguments name. It returns only when that fails.
func runConfined(value string) error {
	runtime.LockOSThread() // all of it belongs to a thread
	var how confinement
	if err := json.Unmarshal([]byte(value), &how); err != nil {
		return err
	}
	if err := how.mount(); err != nil {
		return err
	}
	for _, capability := range how.Drop { // root has those of the bounding set
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return fmt.Errorf("dropping capability %d: %w", capability, err)
		}
	}
	if how.Bpf {
		if err := refuse(unix.SYS_BPF); err != nil {
			return err
		}
	}
	if err := os.Unsetenv(confinedBy); err != nil {
		return err
	}
	return unix.Exec(os.Args[1], os.Args[1:], os.Environ())
}

// mount gives the process a mount namespace in which tracefs is mounted, or is not.
func (c confinement) mount() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		for err := error(nil); err == nil; {
			err = unix.Unmount(dir, unix.MNT_DETACH)
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("unmounting %s: %w", dir, err)
			}
		}
	}
	if !c.Tracefs {
		return nil
	}
	return unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", unix.MS_RDONLY, "")
}

// refuse has every call of a number answered with EPERM from the next exec on.
func refuse(number uint32) error {
	const accumulator, answerEPERM = 0, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: accumulator}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: number},
		{Code: unix.BPF_RET | unix.BPF_K, K: answerEPERM},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return fmt.Errorf("installing the seccomp filter: %w", err)
	}
	return nil
}
