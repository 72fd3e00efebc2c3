// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// PerfEvent is a perf event on one CPU that runs a BPF program.
type PerfEvent struct {
	fd     int
	cpu    int
	source PerfSource
}

// PerfSource is what makes a perf event fire.
type PerfSource int

// Sources of perf events.
const (
	// CPUClock is the kernel's timer on each CPU; every machine has it.
	CPUClock PerfSource = iota
	// Cycles is the hardware's counter of CPU cycles.
	Cycles
	// PageFaults are the kernel's: the event fires at each, whatever the period.
	PageFaults
)

// OpenPerfEvent attaches program to an event on a CPU that fires once each period while the CPU is not idle. The event is enabled at once.
// The error is unix.ENOENT or unix.EOPNOTSUPP if the machine lacks source.
func OpenPerfEvent(source PerfSource, cpu int, period time.Duration, program *ebpf.Program) (*PerfEvent, error) {
	attr := perfAttr(source, period)
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("opening a perf event on CPU %d: %w", cpu, err)
	}
	event := &PerfEvent{fd: fd, cpu: cpu, source: source}
	if err := event.start(program); err != nil {
		return nil, errors.Join(err, event.Close())
	}
	return event, nil
}

func perfAttr(source PerfSource, period time.Duration) unix.PerfEventAttr {
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample: source.rate(period),
		Bits:   unix.PerfBitDisabled | unix.PerfBitExcludeIdle,
	}
	switch source {
	case Cycles:
		attr.Type = unix.PERF_TYPE_HARDWARE
		attr.Config = unix.PERF_COUNT_HW_CPU_CYCLES
		attr.Bits |= unix.PerfBitFreq
	case PageFaults:
		attr.Config = unix.PERF_COUNT_SW_PAGE_FAULTS
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return attr
}

// rate is the kernel's sample period of a source: nanoseconds of the timer, how often per second the counter fires, or every how many faults.
func (s PerfSource) rate(period time.Duration) uint64 {
	switch s {
	case Cycles:
		return uint64(max(time.Second/period, 1))
	case PageFaults:
		return 1
	}
	return uint64(period.Nanoseconds())
}

func (e *PerfEvent) start(program *ebpf.Program) error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
		return fmt.Errorf("attaching a program to the perf event of CPU %d: %w", e.cpu, err)
	}
	return e.Resume()
}

// Pause stops the event until Resume.
func (e *PerfEvent) Pause() error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_DISABLE, 0); err != nil {
		return fmt.Errorf("pausing the perf event of CPU %d: %w", e.cpu, err)
	}
	return nil
}

// Resume lets the event fire.
func (e *PerfEvent) Resume() error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("enabling the perf event of CPU %d: %w", e.cpu, err)
	}
	return nil
}

// SetPeriod makes the event fire at another period. The timer of [CPUClock] restarts.
func (e *PerfEvent) SetPeriod(period time.Duration) error {
	rate := e.source.rate(period)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&rate)))
	if errno != 0 {
		return fmt.Errorf("setting the period of the perf event of CPU %d to %s: %w", e.cpu, period, errno)
	}
	return nil
}

// Close detaches the program and releases the event.
func (e *PerfEvent) Close() error {
	if err := unix.Close(e.fd); err != nil {
		return fmt.Errorf("closing the perf event of CPU %d: %w", e.cpu, err)
	}
	return nil
}
