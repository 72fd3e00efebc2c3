// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// Config is what an engine is asked to do.
type Config struct {
	// RootPath is where the host's file system is mounted.
	RootPath string
	// Include and Exclude select the processes; no Include means all of them but
	// this one.
	Include, Exclude []process.Selector
	// ScanInterval is the time between two full scans of /proc.
	ScanInterval time.Duration
	// OnCPU is nil when that kind does not run.
	OnCPU *OnCPU
	// OffCPU likewise.
	OffCPU *OffCPU
	// Memory is nil when that kind does not run.
	Memory *Memory
	// Network likewise.
	Network *Network
	// Policies start tasks by themselves.
	Policies []Policy
	// Before is what the policies of the engine have seen that this one follows; nil: none.
	Before *Windows
	// OnDemand says that tasks may be asked for, see [Engine.Start].
	OnDemand bool
	// Symbols says where names come from beside the binaries.
	Symbols Symbols
	// MemoryBytes and CPUPercent (of one core) bound the engine's own cost.
	MemoryBytes uint64
	CPUPercent  float64
	// window is over which time that cost is averaged; 0: as long as it takes.
	window time.Duration
}

// Observes tells whether any kind of observation is asked for, or may be later.
func (c *Config) Observes() bool {
	return c.OnDemand || len(c.Policies) > 0 || len(c.asked()) > 0
}

// ObservesAtOnce tells whether any is asked for from the start.
func (c *Config) ObservesAtOnce() bool { return len(c.asked()) > 0 }

// Symbols configures where names and lines come from, beside the binaries themselves.
type Symbols struct {
	// DebugInfo has debug information read for lines, inlined functions and names.
	DebugInfo bool
	// CacheDir keeps what was found out below CacheBytes; none when empty.
	CacheDir   string
	CacheBytes int64
	// Debuginfod are the servers that are asked for debug files.
	Debuginfod []string
}

// OnCPU configures the kind on_cpu.
type OnCPU struct {
	// Targets narrows the engine's own; empty does not.
	Targets        []process.Selector
	Period         time.Duration
	ReportInterval time.Duration
	// Cycles samples by the hardware's cycle counter where there is one.
	Cycles                   bool
	KernelStacks, UserStacks bool
	MaxDepth                 int
}

// OffCPU configures the kind off_cpu.
type OffCPU struct {
	// Targets narrows the engine's own; empty does not.
	Targets        []process.Selector
	ReportInterval time.Duration
	// MinBlock is the shortest wait that is told with its stack, MaxBlock the longest
	// that is told at all, or 0.
	MinBlock, MaxBlock       time.Duration
	KernelStacks, UserStacks bool
	MaxDepth                 int
}

// Memory configures the kind memory.
type Memory struct {
	// Targets narrows the engine's own; empty does not.
	Targets        []process.Selector
	ReportInterval time.Duration
	// Distance is the mean number of bytes between two sampled allocations; 0 counts
	// page faults instead.
	Distance uint64
	// Live matches frees of sampled allocations.
	Live bool
	// plain does without what only some kernels have, for tests.
	plain bool
}

// TLSLibraries are all that [Network].TLS may name.
var TLSLibraries = []string{"openssl", "boringssl", "gnutls", "go", "node", "java"}

// Network configures the kind network: connections and what they carry.
type Network struct {
	// Targets narrows the engine's own; empty does not.
	Targets        []process.Selector
	ReportInterval time.Duration
	// Role leaves out what the other role does.
	Role Role
	// ResolveNAT asks the kernel's connection tracking who is behind an address.
	ResolveNAT bool
	// Requests has requests told, those of Protocols; none: of all. BufferBytes is the size of the ring buffer for what is
	// read of them, a power of two.
	Requests    bool
	Protocols   []string
	BufferBytes uint32
	// TLS are the libraries that requests are read from before they are encrypted, by the
	// names of internal/tls.
	TLS []string
	// Journal says which requests are told one by one; of its memory the engine decides.
	Journal requests.JournalConfig
}

// Role says whose side of connections is observed.
type Role uint8

// Roles of connections.
const (
	BothRoles  Role = iota
	ClientRole      // connections that a process opened
	ServerRole      // connections that it accepted
)

// Hooks are what the engine calls. Each must return soon.
type Hooks struct {
	// Profiles takes what was seen in an interval, Metrics what was counted until
	// its end, Logs what has happened, and Spans the requests that have ended. They own what they get, which is never empty;
	// nil: nobody takes any.
	Profiles func([]*model.Profile)
	Metrics  func([]*model.Metrics)
	Logs     func([]*model.Logs)
	Spans    func([]*model.Spans)
	// Ask asks for a task on behalf of a policy, and returns when it runs or waits; it may
	// take as long as that does. Nil: there are no policies.
	Ask func(task.Request) []task.Outcome
	// Held says how much memory the receivers of these hold; nil: none.
	Held func() uint64
	// Exited is told of a process that has ended or has left the scope; nil: nobody is.
	Exited func(model.ProcessID)
	// Level is told when sampling is reduced or restored to keep to a limit: 0 is
	// as configured, and cause says why.
	Level func(level int, cause string)
}
