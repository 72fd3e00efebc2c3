// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// UprobeKind is when a program runs: when a function begins, or when it returns.
type UprobeKind int

// AttachUprobeSession is BPF_TRACE_UPROBE_SESSION, which cilium/ebpf does not define: a program runs when a function is entered, and again
// when it returns if the first run returned 0. See [Loader.HasUprobeSession].
//
// If several processes run one program, the kernel takes the first run as 0 in the processes that a link is not for, and changes return
// addresses there as well. Programs of Go do not survive that: they get [ebpf.AttachTraceUprobeMulti].
const AttachUprobeSession = ebpf.AttachType(57)

// Kinds of uprobes.
const (
	// UprobeEntry runs a program when a function is entered.
	UprobeEntry UprobeKind = iota
	// UprobeReturn runs a program when a function returns. The kernel changes the
	// return address on the stack of every call for it.
	UprobeReturn
)

// Uprobes attaches programs to functions of the code that one process has mapped. Other processes that run the same file are not affected:
// they hit no breakpoint.
type Uprobes struct {
	// kind of perf event and bit of attr.config, from sysfs.
	perfType  uint32
	returnBit uint
}

// NewUprobes reads from the kernel how uprobes are opened. sysfs is where the host's sysfs is mounted.
func NewUprobes(sysfs string) (*Uprobes, error) {
	device := filepath.Join(sysfs, "bus/event_source/devices/uprobe")
	kind, err := readNumber(filepath.Join(device, "type"), "")
	if err != nil {
		return nil, fmt.Errorf("asking the kernel for uprobes (CONFIG_UPROBES): %w", err)
	}
	bit, err := readNumber(filepath.Join(device, "format/retprobe"), "config:")
	if err != nil {
		return nil, fmt.Errorf("asking the kernel for uprobes on returns: %w", err)
	}
	return &Uprobes{perfType: uint32(kind), returnBit: uint(bit)}, nil
}

func readNumber(path, prefix string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), prefix), 10, 6)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return n, nil
}

// Uprobe is a program that is attached to functions.
type Uprobe struct {
	fds []int
}

// Attach runs program at the given offsets of the file at path, in process pid
// alone.
func (u *Uprobes) Attach(kind UprobeKind, program *ebpf.Program, path string, offsets []uint64, pid uint32) (*Uprobe, error) {
	if len(offsets) == 0 {
		return &Uprobe{}, nil
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("attaching to %q: %w", path, err)
	}
	attached := &Uprobe{}
	for _, offset := range offsets {
		fd, err := u.attachPerf(kind, program, name, offset, pid)
		if err != nil {
			err = fmt.Errorf("attaching %s to %s at %#x in process %d: %w", program, path, offset, pid, err)
			return nil, errors.Join(err, attached.Close())
		}
		attached.fds = append(attached.fds, fd)
	}
	return attached, nil
}

// AttachMulti runs program by one link, with a cookie for each offset which the program reads by bpf_get_attach_cookie; none if cookies is
// nil. The program must have been loaded with the attach type as: [AttachUprobeSession], or [ebpf.AttachTraceUprobeMulti], which kernels with
// sessions have and which changes no return.
func (u *Uprobes) AttachMulti(as ebpf.AttachType, program *ebpf.Program, path string, offsets, cookies []uint64, pid uint32) (*Uprobe, error) {
	if len(offsets) == 0 {
		return &Uprobe{}, nil
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("attaching to %q: %w", path, err)
	}
	fd, err := attachMulti(as, program, name, offsets, cookies, pid)
	if err != nil {
		return nil, fmt.Errorf("attaching %s to %d functions of %s in process %d: %w", program, len(offsets), path, pid, err)
	}
	return &Uprobe{fds: []int{fd}}, nil
}

// multiAttr is union bpf_attr of BPF_LINK_CREATE for uprobes
// (include/uapi/linux/bpf.h, link_create.uprobe_multi).
type multiAttr struct {
	program, target, attachType, flags      uint32
	path, offsets, referenceCounts, cookies uint64
	count, multiFlags, pid                  uint32
	_                                       uint32
}

// attachMulti makes a BPF link: cilium/ebpf has no call for it with a process and a type.
func attachMulti(as ebpf.AttachType, program *ebpf.Program, path *byte, offsets, cookies []uint64, pid uint32) (int, error) {
	attr := multiAttr{
		program: uint32(program.FD()), attachType: uint32(as),
		path: uint64(uintptr(unsafe.Pointer(path))), offsets: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(offsets)))),
		cookies: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(cookies)))),
		count:   uint32(len(offsets)), pid: pid,
	}
	var pinned runtime.Pinner
	pinned.Pin(path)
	pinned.Pin(unsafe.SliceData(offsets))
	if cookies != nil {
		pinned.Pin(unsafe.SliceData(cookies))
	}
	defer pinned.Unpin()
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// attachPerf opens a perf event of the kernel's uprobe device, which every kernel has (kernel/events/core.c, perf_uprobe_event_init).
func (u *Uprobes) attachPerf(kind UprobeKind, program *ebpf.Program, path *byte, offset uint64, pid uint32) (int, error) {
	attr := unix.PerfEventAttr{
		Type: u.perfType,
		Bits: unix.PerfBitDisabled,
		Ext1: uint64(uintptr(unsafe.Pointer(path))),
		Ext2: offset,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	if kind == UprobeReturn {
		attr.Config = 1 << u.returnBit
	}
	var pinned runtime.Pinner
	pinned.Pin(path)
	defer pinned.Unpin()
	fd, err := unix.PerfEventOpen(&attr, int(pid), -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("opening the perf event: %w", err)
	}
	err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD())
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// Close detaches the program.
func (u *Uprobe) Close() error {
	var errs []error
	for _, fd := range u.fds {
		if err := unix.Close(fd); err != nil {
			errs = append(errs, fmt.Errorf("detaching a uprobe: %w", err))
		}
	}
	u.fds = nil
	return errors.Join(errs...)
}
