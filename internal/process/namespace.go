// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// initialPIDNamespace is PROC_PID_INIT_INO of include/linux/proc_ns.h: the
// inode of the host's own pid namespace.
const initialPIDNamespace = 0xEFFFFFFC

// ErrPIDNamespace: the processes seen are not the host's, so that their ids are not those that the kernel reports.
var ErrPIDNamespace = errors.New("the pid namespace is not the host's: run with hostPID: true (Kubernetes) " +
	"or --pid=host (docker, podman), or set root_path to where the host's file system with its own /proc is mounted")

// CheckPIDNamespace checks that ROOT/proc shows the processes of the host's
// own pid namespace. The error is [ErrPIDNamespace] if it does not.
func CheckPIDNamespace(root string) error {
	path := filepath.Join(root, "proc/1/ns/pid")
	link, err := os.Readlink(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		// Without CAP_SYS_PTRACE only our own namespace can be read, which need not be the one of ROOT/proc; with hidepid=2 there is no other
		// process.
		if showsKernelThreads(root) {
			return nil
		}
		path = filepath.Join(root, "proc/self/ns/pid")
		own, ownErr := os.Readlink(path)
		if ownErr != nil {
			return fmt.Errorf("finding the pid namespace: %w; set root_path to where the host's file system with its /proc is mounted",
				errors.Join(err, ownErr))
		}
		link, err = own, nil
	}
	if err != nil {
		return fmt.Errorf("finding the pid namespace: %w", err)
	}
	if inodeOf([]byte(link), "pid:[") != initialPIDNamespace {
		return fmt.Errorf("%s is %s: %w", path, link, ErrPIDNamespace)
	}
	return nil
}

// showsKernelThreads reports whether ROOT/proc has kthreadd (rest_init of init/main.c) at its pid in the host's own namespace: no other
// namespace has kernel threads.
func showsKernelThreads(root string) bool {
	const kthreadd = "proc/2/stat"
	line, err := os.ReadFile(filepath.Join(root, kthreadd))
	if err != nil {
		return false
	}
	s, err := parseStat(line)
	return err == nil && s.kernel
}

// SelfPID returns the id of this process in the pid namespace of ROOT/proc.
func SelfPID(root string) (uint32, error) {
	link, err := os.Readlink(filepath.Join(root, "proc/self"))
	if err != nil {
		return 0, fmt.Errorf("finding the own pid: %w", err)
	}
	pid, err := strconv.ParseUint(link, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("finding the own pid: %s/proc/self: %w", root, err)
	}
	return uint32(pid), nil
}
