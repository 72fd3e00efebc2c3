// SPDX-License-Identifier: Apache-2.0

// Package observe says what an observation is: something the engine can start
// for a set of processes and stop again, and whose findings leave as plain
// values. Each kind of observation has a folder below this one.
package observe

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Kind names an observation as the configuration does.
type Kind string

// Kinds of observation.
const (
	OnCPU   Kind = "on_cpu"
	OffCPU  Kind = "off_cpu"
	Memory  Kind = "memory"
	Network Kind = "network"
	// Monitors is what policies see of requests; nothing else is told of it.
	Monitors Kind = "http_monitors"
)

// Observation is one running kind. Its methods are called from one goroutine,
// but for those that only tell (from Losses to HeldBytes), which are safe from
// any until Close.
type Observation interface {
	// DrainInterval is how often Drain wants to be called.
	DrainInterval() time.Duration
	// Drain takes from the kernel what was seen since the last call.
	Drain() error
	// Report returns what was drained since the last Report, and forgets it. Metrics
	// are cumulative: their points count on.
	Report(until time.Time) model.Findings
	// SetLevel makes the observation cheaper the higher the level is; at 0 it
	// does what was configured. It is called between Report and the next Drain.
	SetLevel(level int) error
	// CPUsChanged is called after CPUs came or went, and again some time after it
	// failed.
	CPUsChanged() error
	// Attached is the number of hooks that the observation's programs are attached
	// to now: perf events, tracepoints, probes.
	Attached() int
	// Losses returns what was seen and could not be kept whole, by reason, since
	// the start.
	Losses() []Loss
	// Samples returns how many events were seen since the start, lost ones
	// included.
	Samples() uint64
	// Costs returns the kernel's run-time statistics of each program.
	Costs() ([]ProgramCost, error)
	// Unmerged returns how many events the kernel could not merge with equal ones;
	// nothing is lost by it.
	Unmerged() uint64
	// Fill is how full the fullest of the kernel's tables was at the last Drain,
	// from 0 to 1. It is called from the goroutine that drains.
	Fill() float64
	// MapBytes is the memory of the observation's kernel maps, HeldBytes that of
	// what waits for the next Report.
	MapBytes() uint64
	HeldBytes() uint64
	// Close detaches and unloads everything.
	Close() error
}

// Follower is an observation that attaches to processes one by one. Its methods
// return at once and may be called from any goroutine.
type Follower interface {
	// Look tells that a process may have appeared, come into scope or left it, run
	// another program, or mapped code.
	Look(pid uint32)
	// LookAll tells that processes have, and that nobody knows which.
	LookAll()
	// Over tells that the programs that a process ran before the exec id now have
	// ended; math.MaxUint32: that the process has.
	Over(id model.ProcessID, now uint32)
}

// Narrator is an observation that tells events as they happen, not with its reports
// alone.
type Narrator interface {
	// Logs returns what has happened since the last call, Spans the requests that have
	// ended since. They are called after each Drain, from the same goroutine.
	Logs() []*model.Logs
	Spans() []*model.Spans
}

// Stopper is an observation that takes in what it sees on its own, so that its last Drain
// would miss what it has not taken in yet.
type Stopper interface {
	// Stop stops observing: what was seen until now is there for the next Drain and
	// Report, and nothing comes after it. Close still frees what is left.
	Stop() error
}

// Partial is an observation that may start on some of the CPUs alone.
type Partial interface {
	// LeftOut says why CPUs are not observed since the start, or nil. CPUsChanged
	// tries them again.
	LeftOut() error
}

// Loss is a count of events that were lost, or cut, for one reason.
type Loss struct {
	Probe, Reason string
	Count         uint64
	// Told says that the events were told all the same, less complete than they
	// were seen.
	Told bool
}

// ProgramCost is the run time of one BPF program since it was loaded.
type ProgramCost struct {
	Program string
	Runs    uint64
	Time    time.Duration
	Missed  uint64 // times that the kernel did not run it, since it was at work on the same CPU already
}

// SubjectKey is how BPF programs name the program that a process runs.
type SubjectKey struct {
	// PID is the thread group id.
	PID uint32
	// StartBoottime is when the process started, in nanoseconds of CLOCK_BOOTTIME.
	StartBoottime uint64
	// ExecID tells the programs that a process runs one after the other apart.
	ExecID uint32
}

// ID returns the process's identity.
func (k SubjectKey) ID() model.ProcessID {
	return model.ProcessID{PID: k.PID, StartTicks: model.StartTicks(k.StartBoottime)}
}

// Subject is a process that is being observed.
type Subject interface {
	// Process is never nil.
	Process() *model.Process
	// Runtime is the language runtime that the process has, as far as it is known now,
	// or was when the process ended.
	Runtime() model.Runtime
	// UserFrames appends the frames of a user stack, leaf first, to dst. Where the
	// code shows that the leaf had set up no frame and that caller, which may be 0,
	// is where it returns to, caller's frame comes after the leaf's. Where the stack
	// leads out of the process's code the rest is left out.
	UserFrames(dst []*model.Frame, addresses []uint64, caller uint64) []*model.Frame
	// Gone tells that the process ended before its mappings could be read, so
	// that its user frames have no names.
	Gone() bool
}

// Unknown is the reason of a loss: why nobody knows of a process whether it is in scope.
type Unknown string

const (
	// Undecided: it was over before it could be read.
	Undecided Unknown = "undecided"
	// TooMany: there are more than are known at once.
	TooMany Unknown = "too_many"
)

// Host is what an observation asks the engine.
type Host interface {
	// Subject returns the process that key names, or nil when it is out of scope, or
	// nobody knows whether it is: then the loss says why. comm is what the kernel called
	// it, for when nothing else is known.
	Subject(key SubjectKey, comm string) (Subject, Unknown)
	// KernelFrames appends the frames of a kernel stack, leaf first, to dst.
	KernelFrames(dst []*model.Frame, addresses []uint64) []*model.Frame
}
