// SPDX-License-Identifier: Apache-2.0

package policy

// Monitor names what gives a value for each second, as the configuration does.
type Monitor string

// Monitors.
const (
	// ProcessCPU is the CPU time that a process used in a second, in per cent of that
	// of all the host's CPUs.
	ProcessCPU Monitor = "process_cpu"
	// ProcessThreadCount is the number of a process's threads.
	ProcessThreadCount Monitor = "process_thread_count"
	// SystemLoad is the host's load average over a minute.
	SystemLoad Monitor = "system_load"
	// SystemCPUPressure is the part of a second in which any thread of the host waited for a
	// CPU, in per cent; SystemMemoryPressure and SystemIOPressure likewise for memory that has
	// to be reclaimed first, and for disks.
	SystemCPUPressure    Monitor = "system_cpu_pressure"
	SystemMemoryPressure Monitor = "system_memory_pressure"
	SystemIOPressure     Monitor = "system_io_pressure"
	// HTTPErrorRate is the part of a server's responses in a second whose status is 500
	// to 599, in per cent.
	HTTPErrorRate Monitor = "http_error_rate"
	// HTTPAvgResponseTime is the mean time, in milliseconds, that the requests took which
	// a server has answered in a second.
	HTTPAvgResponseTime Monitor = "http_avg_response_time"
)

// Monitors lists them all.
func Monitors() []Monitor {
	return []Monitor{
		ProcessCPU, ProcessThreadCount, SystemLoad, SystemCPUPressure, SystemMemoryPressure, SystemIOPressure, HTTPErrorRate, HTTPAvgResponseTime,
	}
}

// OfRequests tells whether the monitor's values come from requests.
func (m Monitor) OfRequests() bool { return m == HTTPErrorRate || m == HTTPAvgResponseTime }

// ofProcesses tells whether there is a value for each process and second.
func (m Monitor) ofProcesses() bool { return m == ProcessCPU || m == ProcessThreadCount }

// OfHost tells whether there is a value for each second, the same for all processes.
func (m Monitor) OfHost() bool { return m == SystemLoad || m.ofPressure() }

func (m Monitor) ofPressure() bool {
	return m == SystemCPUPressure || m == SystemMemoryPressure || m == SystemIOPressure
}

// Percentage tells whether values lie between 0 and 100.
func (m Monitor) Percentage() bool { return m == ProcessCPU || m == HTTPErrorRate || m.ofPressure() }
