// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// initialUserNamespace is the inode number of the host's user namespace (PROC_USER_INIT_INO of include/linux/proc_ns.h).
const initialUserNamespace = "user:[4026531837]"

// tooLarge is more than the kernel takes as the size of bpf(2)'s attributes (a page; of 64 KiB at most): it returns E2BIG before it reads
// them.
const tooLarge = 1 << 20

// refusable are the commands of bpf(2) without which nothing can be observed.
var refusable = []uintptr{unix.BPF_MAP_CREATE, unix.BPF_PROG_LOAD, unix.BPF_LINK_CREATE, unix.BPF_BTF_LOAD}

// host is what the search for the cause of a refused call reads; tests replace it.
type host struct {
	// filtered returns the error of a call that every kernel refuses, so that another error can only come from a filter before the kernel.
	filtered func() (call string, err error)
	// read returns the text of a file, or of a symbolic link.
	read func(path string) string
	// sysRoot is where the host's /sys is mounted.
	sysRoot string
	// chargesMemlock reports whether the kernel charges maps to RLIMIT_MEMLOCK.
	chargesMemlock func() bool
}

// Refusal returns what refuses bpf(2) or perf_event_open(2) to a process that has the capabilities they need, and what to do about it. Call
// it when a call has failed with EPERM, EACCES or ENOSYS. sysRoot is where the host's /sys is mounted.
func Refusal(sysRoot string) string {
	return host{filtered: filteredCall, read: readText, sysRoot: sysRoot, chargesMemlock: chargesMemlock}.refusal()
}

func (h host) refusal() string {
	call, err := h.filtered()
	if err != nil && !strings.Contains(h.read("/proc/self/status"), "\nSeccomp:\t2") {
		return fmt.Sprintf("%s is not to be had here (%v), and no seccomp filter refuses it: a sandbox such as gVisor stands before the kernel, "+
			"or the kernel has no such call (CONFIG_BPF_SYSCALL, CONFIG_PERF_EVENTS)", call, err)
	}
	if err != nil {
		return fmt.Sprintf("%s is refused before the kernel sees it (%v): by the seccomp filter of the container or the service. "+
			"Podman and Docker: run it with --security-opt seccomp=FILE of a profile that allows bpf and perf_event_open, or seccomp=unconfined; "+
			"Kubernetes: securityContext.seccompProfile; systemd: SystemCallFilter=bpf perf_event_open", call, err)
	}
	if namespace := h.read("/proc/self/ns/user"); namespace != "" && namespace != initialUserNamespace {
		return "the Collector runs in a user namespace, in which the capabilities it has do not count for bpf(2): " +
			"run its container as the host's root, without --userns and not rootless"
	}
	if lockedDown(h.read, h.sysRoot) {
		return "the kernel is locked down (confidentiality, kernel_lockdown(7)), which forbids programs to read its memory: " +
			"boot it with lockdown=integrity or lockdown=none"
	}
	if h.chargesMemlock() {
		return "this kernel charges BPF maps to RLIMIT_MEMLOCK, which could not be raised or is too low: " +
			"grant CAP_SYS_RESOURCE, or raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity of systemd)"
	}
	var modules []string
	for m := range strings.SplitSeq(h.read(filepath.Join(h.sysRoot, "kernel/security/lsm")), ",") {
		if m != "" && m != "capability" && m != "lockdown" && m != "yama" { // these do not decide about bpf(2)
			modules = append(modules, m)
		}
	}
	label := h.read("/proc/self/attr/current")
	switch {
	case len(modules) > 0 && label != "":
		return fmt.Sprintf("a security module of the kernel refuses it (active are %s; the Collector runs as %q): "+
			"allow it bpf and perf_event in the module's policy, or run its container with --security-opt label=disable (SELinux) or apparmor=unconfined",
			strings.Join(modules, ", "), label)
	case len(modules) > 0:
		return fmt.Sprintf("a security module of the kernel refuses it (active are %s): allow the Collector bpf and perf_event in its policy", strings.Join(modules, ", "))
	}
	return "no seccomp filter, user namespace or lockdown was found that refuses it; a security module (LSM) may, which /sys/kernel/security/lsm lists " +
		"where securityfs is mounted, or a kernel without the feature"
}

// filteredCall calls bpf and perf_event_open with arguments that every kernel refuses at once, and returns the first call with another error.
func filteredCall() (string, error) {
	for _, command := range refusable {
		if _, _, errno := unix.Syscall(unix.SYS_BPF, command, 0, tooLarge); isRefusal(errno) {
			return "bpf(2)", errno
		}
	}
	const everyFlag = ^uintptr(0)
	if _, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, 0, 0, ^uintptr(0), ^uintptr(0), everyFlag, 0); isRefusal(errno) {
		return "perf_event_open(2)", errno
	}
	return "", nil
}

// Filtered returns an error if a filter before the kernel, such as seccomp, refuses the calls that the receiver needs.
func Filtered(sysRoot string) error {
	if _, err := filteredCall(); err != nil {
		return errors.New(Refusal(sysRoot))
	}
	return nil
}

// isRefusal reports whether an error is one by which calls are refused, whatever their arguments.
func isRefusal(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}

// lockedDown reports whether the kernel forbids all programs to read its memory. Helpers that do are unknown to it then (EINVAL).
func lockedDown(read func(path string) string, sysRoot string) bool {
	return strings.Contains(read(filepath.Join(sysRoot, "kernel/security/lockdown")), "[confidentiality]")
}

// chargesMemlock reads the kernel's type information: since 5.11 maps are charged to memory control groups.
func chargesMemlock() bool {
	has, err := NewLoader().HasStruct("bpf_map_memory")
	return err == nil && has
}

func readText(path string) string {
	if target, err := os.Readlink(path); err == nil {
		return target
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.Trim(string(text), "\x00\n ")
}
