// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mounts of the guest, in order.
var mounts = []struct{ target, fstype string }{
	{"/proc", "proc"},
	{"/sys", "sysfs"},
	{"/dev", "devtmpfs"},
	{"/dev/shm", "tmpfs"},
	{"/tmp", "tmpfs"},
	{"/run", "tmpfs"},
	{"/sys/kernel/tracing", "tracefs"},
	{"/sys/kernel/debug", "debugfs"},
	{"/sys/fs/bpf", "bpf"},
	{"/sys/fs/cgroup", "cgroup2"},
}

// mountAll mounts what it can and names what it cannot.
func mountAll() error {
	var errs []error
	for _, m := range mounts {
		// Below /sys and /proc the kernel makes the mount points itself: mounting shows best what is missing.
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("making the mount point %s: %w", m.target, err))
			continue
		}
		if err := unix.Mount(m.fstype, m.target, m.fstype, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, fmt.Errorf("mounting %s at %s: %w", m.fstype, m.target, err))
		}
	}
	return errors.Join(errs...)
}

// upLoopback brings the interface lo up, as `ip link set lo up` does.
func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bringing lo up: opening a socket: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	return nil
}
