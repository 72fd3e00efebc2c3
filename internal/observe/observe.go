// SPDX-License-Identifier: Apache-2.0

// Package observe defines what an observation is: something the engine can start
// for a set of processes and stop again, and whose findings are exported as plain
// values. Each kind of observation has a folder below this one.
package observe

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Kind is the name of a kind of observation, as in the configuration.
type Kind string

// SamplingLevels is the number of steps by which sampling is reduced: each halves it, and at a 64th there is nothing left to save.
const SamplingLevels = 6

// Observation is one running observation. What not every kind can do is in the optional interfaces below: the engine checks which of them an
// observation implements.
//
// All methods are called from one goroutine, except those of [Statistics], which any goroutine may call until Close.
type Observation interface {
	// DrainInterval returns how often Drain has to be called.
	DrainInterval() time.Duration
	// Drain reads what the kernel has recorded since the last call.
	Drain() error
	// Report returns what was drained since the last Report, and forgets it. Metrics are cumulative: their points continue.
	Report(until time.Time) model.Findings
	// Close detaches and unloads everything.
	Close() error

	Statistics
}

// Statistics are an observation's own counts. Counts are since the start.
type Statistics interface {
	// Attached is the number of hooks that the programs are attached to now: perf events, tracepoints, probes.
	Attached() int
	// Samples is how many events were seen, lost ones included.
	Samples() uint64
	// Losses are the events that were lost or are incomplete, by reason. A reason is listed from the start, also while its count is 0.
	Losses() []Loss
	// Costs returns the kernel's run-time statistics of each program.
	Costs() ([]ProgramCost, error)
	// Fill is how full the fullest of the kernel's tables was at the last Drain, from 0 to 1. It is called from the goroutine that drains.
	Fill() float64
	// MapBytes is the memory of the kernel's maps. HeldBytes is that of what waits for the next Report.
	MapBytes() uint64
	HeldBytes() uint64
}

// Reducer is an observation whose cost can be reduced to keep to the receiver's limits.
type Reducer interface {
	// Levels is the number of steps by which it can be reduced. It may be 0.
	Levels() int
	// SetLevel reduces the observation by a number of steps, up to Levels; at 0 it does what was configured. If the kind takes samples, it is
	// called between Report and the next Drain.
	SetLevel(level int) error
	// Effect describes what the observation does at its level, such as "samples every 18ms".
	Effect() string
}

// CPUFollower is an observation that has something on each CPU: perf events or tables.
type CPUFollower interface {
	// CPUsChanged is called after CPUs came or went, and again some time after it failed.
	CPUsChanged() error
}

// Merger is an observation that counts equal events as one in the kernel.
type Merger interface {
	// Unmerged is how many events the kernel could not merge with equal ones, since the start. They are not lost.
	Unmerged() uint64
}

// Follower is an observation that attaches to processes one by one. Its methods return at once and may be called from any goroutine.
type Follower interface {
	// Look is called when a process may have appeared, come into scope or left it, executed another program, or mapped code.
	Look(pid uint32)
	// LookAll is Look for processes that are not known individually.
	LookAll()
	// Over is called when the programs that a process ran before the exec id now have ended; math.MaxUint32: the process has exited.
	Over(id model.ProcessID, now uint32)
}

// Narrator is an observation that exports events and spans when they happen, not only with its reports.
type Narrator interface {
	// Logs returns the events since the last call, Spans the requests that have ended since. They are called after each Drain, from the same
	// goroutine.
	Logs() []*model.Logs
	Spans() []*model.Spans
}

// Stopper is an observation that reads what it observes in a goroutine of its own, so that the last Drain would miss what is not read yet.
type Stopper interface {
	// Stop stops observing. What was observed until then is part of the next Drain and Report, and nothing comes after it. Close still frees
	// the rest.
	Stop() error
}

// Partial is an observation that may start on some of the CPUs alone.
type Partial interface {
	// LeftOut is why CPUs are not observed since the start, or nil. CPUsChanged tries them again.
	LeftOut() error
}

// SeriesOwner is an observation that retires series of metrics which were not used for long.
type SeriesOwner interface {
	// RetiredSeries is how many were retired since the start. It may be called from any goroutine until Close.
	RetiredSeries() uint64
}

// Timed is an observation that records when events happened.
type Timed interface {
	// FirstSample is when the first event happened that was read, in nanoseconds of CLOCK_MONOTONIC; 0: there was none. It may be called from any
	// goroutine.
	FirstSample() uint64
}

// Loss is a count of events that were lost, or cut, for one reason.
type Loss struct {
	Probe, Reason string
	Count         uint64
	// Incomplete: the events were exported nevertheless, but incomplete.
	Incomplete bool
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
	// ExecID distinguishes the programs that a process runs one after the other.
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
	// Gone marks that the process exited before its mappings could be read, so that its
	// user frames have no names.
	Gone() bool
}

// Unknown is the reason of a loss: why it is not known whether a process is in scope.
type Unknown string

const (
	// Undecided: it was over before it could be read.
	Undecided Unknown = "undecided"
	// TooMany: there are more than are known at once.
	TooMany Unknown = "too_many"
)

// Host is what an observation needs from the engine.
type Host interface {
	// Subject returns the process with this key, or nil if it is out of scope or this is not known:
	// then the loss is the reason. comm is the kernel's name of it, for when nothing else is known.
	Subject(key SubjectKey, comm string) (Subject, Unknown)
	// KernelFrames appends the frames of a kernel stack, leaf first, to dst.
	KernelFrames(dst []*model.Frame, addresses []uint64) []*model.Frame
}
