// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/thread"
)

// errGone: the process had exited, or left the namespace, before that could be opened.
var errGone = errors.New("the network namespace cannot be reached any more")

// openNamespace opens a process's network namespace, which must be the one wanted; 0 wants any.
func openNamespace(procRoot, pid string, wanted uint64) (*os.File, uint64, error) {
	file, err := os.Open(filepath.Join(procRoot, pid, "ns/net"))
	if errors.Is(err, fs.ErrNotExist) {
		file, err = openOfThread(procRoot, pid, err)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, 0, fmt.Errorf("%w: %w", errGone, err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, 0, lacking(err, kernel.CapSysPtrace)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("opening a network namespace: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("identifying a network namespace: %w", err), file.Close())
	}
	if wanted != 0 && stat.Ino != wanted {
		return nil, 0, errors.Join(fmt.Errorf("%w: process %s is in another", errGone, pid), file.Close())
	}
	return file, stat.Ino, nil
}

// openOfThread opens the namespace of a process whose main thread has exited, and so has no namespace any more.
func openOfThread(procRoot, pid string, missing error) (*os.File, error) {
	number, err := strconv.ParseUint(pid, 10, 32)
	if err != nil {
		return nil, missing
	}
	folder, _, err := proc.Open(procRoot, uint32(number))
	if err != nil {
		return nil, missing
	}
	defer unix.Close(folder) //nolint:errcheck // an O_PATH descriptor
	fd, err := unix.Openat(folder, "ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(missing, err)
	}
	return os.NewFile(uintptr(fd), "ns/net"), nil
}

// inside runs f in a network namespace, on a thread that is discarded after it.
func inside(namespace *os.File, f func() error) error {
	return thread.RunApart(func() error {
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		if errors.Is(err, unix.EPERM) {
			return lacking(fmt.Errorf("entering a network namespace: %w", err), kernel.CapSysAdmin)
		}
		if err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// tracking reports whether the namespace of this thread tracks any connection now. A ctnetlink request where nothing is tracked would make
// the kernel load its module in vain.
func tracking(procRoot string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(procRoot, "sys/net/netfilter/nf_conntrack_count"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading how many connections are tracked: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return false, fmt.Errorf("reading how many connections are tracked: %w", err)
	}
	return n > 0, nil
}

// lacking adds to a refusal the capability that is needed, if the process lacks it.
func lacking(refused error, needed kernel.Capability) error {
	missing, err := kernel.MissingCapabilities(needed)
	if err != nil || len(missing) == 0 {
		return errors.Join(refused, err)
	}
	return fmt.Errorf("%w: %w", refused, &kernel.MissingCapabilityError{Missing: missing})
}
