// SPDX-License-Identifier: Apache-2.0

// Package model holds the values that pass between the packages of the receiver. It
// depends on nothing but the standard library.
package model

import "time"

// TicksPerSecond is USER_HZ, the unit of process start times in
// /proc/PID/stat. It is 100 on every architecture that is supported.
const TicksPerSecond = 100

// ProcessID identifies a process for as long as the host is up: process ids
// are reused, the pair with the start time is not.
type ProcessID struct {
	// PID is the thread group id in the initial pid namespace.
	PID uint32
	// StartTicks is field 22 (starttime) of /proc/PID/stat: the start time since
	// boot in clock ticks. It equals task_struct.start_boottime (nanoseconds) of
	// the group leader divided by 10^9/USER_HZ, rounded down.
	StartTicks uint64
}

// StartTicks converts task_struct.start_boottime, in nanoseconds, to the unit
// of [ProcessID.StartTicks], as the kernel's nsec_to_clock_t does.
func StartTicks(startBoottime uint64) uint64 {
	return startBoottime / (uint64(time.Second) / TicksPerSecond)
}

// Process is what is known of an observed process. It is immutable once
// published; what changes (an exec, say) makes a new value.
type Process struct {
	ID ProcessID
	// Comm is /proc/PID/comm of the group leader.
	Comm string
	// Executable is the path of the executable as the process sees it; empty
	// for kernel threads.
	Executable string
	// Arguments is the command line; empty for kernel threads.
	Arguments []string
	// KernelThread is set for threads without a user address space.
	KernelThread bool
	// CreationTime is the start time on the wall clock.
	CreationTime time.Time
	// ServiceName is never empty, see the configuration contract.
	ServiceName string
	// ServiceInstanceID is the same for all processes of one container.
	ServiceInstanceID string
	// Family is the oldest process of the line of ancestors that run the same executable: for workers
	// it is their master, and for a process whose parent runs another executable the process itself.
	// It is zero if it is not known, or if a container or a configured value determines the instance.
	Family ProcessID
	// ContainerID is 64 hexadecimal digits, or empty.
	ContainerID string
	// PodUID is a Kubernetes pod UID in its dashed form, or empty.
	PodUID string
	// Attributes are the resource attributes that the matching selector sets
	// beyond service.name.
	Attributes map[string]string
}

// Instance returns what all processes of the service instance have in common: a Process without an ID, as the resource of metrics that
// outlive single processes.
func (p *Process) Instance() *Process {
	return &Process{
		ServiceName: p.ServiceName, ServiceInstanceID: p.ServiceInstanceID,
		ContainerID: p.ContainerID, PodUID: p.PodUID, Attributes: p.Attributes,
	}
}

// ExecutableName is the last element of the executable's path, or the comm
// where there is none.
func (p *Process) ExecutableName() string {
	for i := len(p.Executable) - 1; i >= 0; i-- {
		if p.Executable[i] == '/' {
			return p.Executable[i+1:]
		}
	}
	if p.Executable != "" {
		return p.Executable
	}
	return p.Comm
}
