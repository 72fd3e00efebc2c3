// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Descriptor is a monitor. Exactly one of Process, Host and Requests is set: it reads the value, and so decides the scope.
type Descriptor struct {
	// Name is the monitor's name in the configuration, in events and in log lines.
	Name string
	// Unit is that of the value and of thresholds, such as "per cent".
	Unit string
	// Max is the largest threshold that is allowed; 0: there is none.
	Max float64
	// Doc says what the value of one second is, as a cell of the documentation's table.
	Doc string

	// Metric is the gauge that exports the value.
	Metric model.Descriptor
	// Scale converts a value from Unit to the unit of Metric.
	Scale float64
	// Integer makes the gauge one of whole numbers.
	Integer bool
	// Sums says that the value of a service instance is the sum of those of its processes. Otherwise it is the highest of them.
	Sums bool

	// Process reads the value of a process; false if this second has none.
	Process func(Process) (value float64, ok bool)
	// Host returns a new reader of the host's value. Each set of policies has its own, so that a reader may keep the previous sample.
	Host func() HostReader
	// Requests returns what requests that ended in a second add to a sum, and how many of them count. The value is the mean.
	Requests func(Requests) (sum float64, n uint64)
}

// Process is what a process used in a second.
type Process struct {
	// CPU is the CPU time of all threads in the time Elapsed. Elapsed is 0 if that is unknown.
	CPU, Elapsed time.Duration
	// CPUs is the number of the host's CPUs that are online.
	CPUs int
	// Threads is the number of threads at the end of the second.
	Threads int
}

// HostReader reads the value of the second that ends at a time by CLOCK_BOOTTIME; false if there is none, such as of a difference when it is
// read first.
type HostReader func(Roots, time.Duration) (value float64, ok bool, err error)

// Roots are the folders where the host's procfs and sysfs are mounted.
type Roots struct{ Proc, Sys string }

// Requests are requests to a process as a server that ended in the same second.
type Requests struct {
	// Known counts those whose status is known and those without a response. Errors counts those of them with a status of 500 to 599 and
	// those without a response.
	Known, Errors uint64
	// Timed counts those whose duration is known, and Took is the sum of their durations.
	Timed uint64
	Took  time.Duration
}

// Scope is what a monitor has a value of.
type Scope string

// Scopes.
const (
	ScopeProcess  Scope = "process"
	ScopeHost     Scope = "host"
	ScopeRequests Scope = "requests"
)

// Scope is what the monitor has a value of.
func (d *Descriptor) Scope() Scope {
	switch {
	case d.Process != nil:
		return ScopeProcess
	case d.Host != nil:
		return ScopeHost
	}
	return ScopeRequests
}

// OfProcesses reports whether each process has a value for each second.
func (d *Descriptor) OfProcesses() bool { return d.Scope() == ScopeProcess }

// OfHost reports whether each second has one value, the same for all processes.
func (d *Descriptor) OfHost() bool { return d.Scope() == ScopeHost }

// OfRequests reports whether values come from requests, which programs in the kernel have to read, and paths may narrow.
func (d *Descriptor) OfRequests() bool { return d.Scope() == ScopeRequests }

// CheckThreshold returns why a threshold is not allowed, or nil.
func (d *Descriptor) CheckThreshold(threshold float64) error {
	switch {
	case threshold < 0 || math.IsNaN(threshold) || math.IsInf(threshold, 0):
		return fmt.Errorf("%v is not allowed: it must be a number from 0 on", threshold)
	case d.Max > 0 && threshold > d.Max:
		return fmt.Errorf("%v is not allowed: %s is in %s, from 0 to %v", threshold, d.Name, d.Unit, d.Max)
	}
	return nil
}

// Range is what thresholds are allowed, for documentation.
func (d *Descriptor) Range() string {
	if d.Max > 0 {
		return "0–" + strconv.FormatFloat(d.Max, 'f', -1, 64)
	}
	return "from 0"
}
