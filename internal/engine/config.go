// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// Config configures an engine.
type Config struct {
	// RootPath is where the host's file system is mounted.
	RootPath string
	// Include and Exclude select the processes; no Include means all of them but
	// this one.
	Include, Exclude []process.Selector
	// ScanInterval is the time between two full scans of /proc.
	ScanInterval time.Duration
	// Observe are the plans of the kinds that run from start to shutdown, at most one of each kind, in the order of the list of kinds.
	Observe []observe.Plan
	// monitors is the plan of the observation that reads requests for policies, once they are prepared.
	monitors *network.MonitorPlan
	// MetricsByInstance has metrics reported by service instance, whose counts stay when its processes end; else by process.
	MetricsByInstance bool
	// ExponentialHistograms has histograms count in exponential buckets; else they have explicit bounds.
	ExponentialHistograms bool
	// Policies start tasks by themselves.
	Policies []Policy
	// Before are the windows of the policies of the previous engine; nil: none.
	Before *Windows
	// Warned are the warnings that previous engines have logged; may be nil.
	Warned *warn.Memory
	// OnDemand: tasks may be started, see [Engine.Start].
	OnDemand bool
	// Symbols configures where names come from in addition to the binaries.
	Symbols Symbols
	// MemoryBytes and CPUPercent (of one core) bound the engine's own cost.
	MemoryBytes uint64
	CPUPercent  float64
	// window is the time over which that cost is averaged; 0: the default.
	window time.Duration
}

// Observes reports whether any kind of observation is configured, or may be started later.
func (c *Config) Observes() bool {
	return c.OnDemand || len(c.Policies) > 0 || len(c.configured()) > 0
}

// ObservesAtOnce reports whether any kind is configured to run from the start.
func (c *Config) ObservesAtOnce() bool { return len(c.configured()) > 0 }

// Symbols configures where names and lines come from, in addition to the binaries themselves.
type Symbols struct {
	// DebugInfo has debug information read for lines, inlined functions and names.
	DebugInfo bool
	// CacheDir keeps symbol tables, up to CacheBytes; empty: there is no cache.
	CacheDir   string
	CacheBytes int64
	// Debuginfod are the servers that debug files are fetched from.
	Debuginfod []string
}

// Hooks are what the engine calls. Each must return soon.
type Hooks struct {
	// Profiles takes the samples of an interval, Metrics the counts until
	// its end, Logs the events, and Spans the requests that have ended. They own their argument, which is never empty;
	// nil: no pipeline takes any.
	Profiles func([]*model.Profile)
	Metrics  func([]*model.Metrics)
	Logs     func([]*model.Logs)
	Spans    func([]*model.Spans)
	// Ask starts a task on behalf of a policy, and returns when it runs or waits, which may
	// take long. Nil: there are no policies.
	Ask func(task.Request) []task.Outcome
	// Held returns how much memory the consumers of these hold; nil: none.
	Held func() uint64
	// Exited is called with a process that has exited or has left the scope; may be nil.
	Exited func(model.ProcessID)
	// Level is called when a kind is reduced or restored to keep to a limit.
	Level func(LevelChange)
	// Unavailable is called with the reason why a part of the configuration cannot be done; may be nil.
	Unavailable func(why error)
}

// LevelChange reports that a kind observes less, or more again, to keep to a limit.
type LevelChange struct {
	Kind string
	// Level is the number of steps by which it is reduced; 0: it does what was configured.
	Level int
	// Effect is what it does now, such as "samples every 18ms"; Cause is why.
	Effect, Cause string
}
