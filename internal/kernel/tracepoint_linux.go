// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Tracepoints attaches programs to tracepoints that have no program type of their
// own, such as those of single system calls. Their numbers are in tracefs.
type Tracepoints struct {
	events *os.Root
}

// OpenTracepoints opens the host's tracefs. If it is not mounted, it is opened without a mount that others see.
func OpenTracepoints(sysRoot string) (*Tracepoints, error) {
	for _, dir := range []string{"kernel/tracing", "kernel/debug/tracing"} {
		events, err := os.OpenRoot(filepath.Join(sysRoot, dir, "events"))
		if err == nil {
			return &Tracepoints{events: events}, nil
		}
		if errors.Is(err, fs.ErrPermission) { // it belongs to root, and is closed to others
			return nil, fmt.Errorf("opening tracefs: %w; run the Collector as root, or grant CAP_DAC_READ_SEARCH", err)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("opening tracefs: %w", err)
		}
	}
	mounted, err := mountTracefs()
	if err != nil {
		return nil, fmt.Errorf("opening tracefs, which is not mounted at %s: %w; mount it there, or grant CAP_SYS_ADMIN",
			filepath.Join(sysRoot, "kernel/tracing"), err)
	}
	defer unix.Close(mounted)
	events, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d/events", mounted))
	if err != nil {
		return nil, fmt.Errorf("opening tracefs: %w", err)
	}
	return &Tracepoints{events: events}, nil
}

// mountTracefs returns a mount of tracefs that is in no namespace (fsmount(2)).
func mountTracefs() (int, error) {
	context, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	mounted, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return mounted, nil
}

// Tracepoint is a program that is attached to a tracepoint, on all CPUs.
type Tracepoint struct{ fd int }

// Attach runs program at a tracepoint. The error is fs.ErrNotExist if the kernel has none of that name.
func (t *Tracepoints) Attach(program *ebpf.Program, group, name string) (*Tracepoint, error) {
	attached, err := t.attach(program, group, name)
	if err != nil {
		return nil, fmt.Errorf("attaching to the tracepoint %s:%s: %w", group, name, err)
	}
	return attached, nil
}

func (t *Tracepoints) attach(program *ebpf.Program, group, name string) (*Tracepoint, error) {
	text, err := t.events.ReadFile(filepath.Join(group, name, "id"))
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("reading its number: %w", err)
	}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id}
	attr.Size = uint32(unsafe.Sizeof(attr))
	// A program at a tracepoint runs on all CPUs, whichever the event is on.
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("opening the perf event: %w", err)
	}
	attached := &Tracepoint{fd: fd}
	err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD())
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		return nil, errors.Join(err, attached.Close())
	}
	return attached, nil
}

// Close closes tracefs; programs stay attached.
func (t *Tracepoints) Close() error { return t.events.Close() }

// Close detaches the program.
func (t *Tracepoint) Close() error {
	if err := unix.Close(t.fd); err != nil {
		return fmt.Errorf("detaching from a tracepoint: %w", err)
	}
	return nil
}
