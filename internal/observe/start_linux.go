// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package observe

import (
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// Starter is implemented by every [Plan] on the platforms that have an engine.
type Starter interface {
	Plan
	// Start loads and attaches the programs. It returns when the observation runs, or when it can begin.
	Start(env Environment) (Started, error)
}

// Started is an observation that was started.
type Started struct {
	Observation Observation
	// Begin begins to observe. The engine calls it when it follows processes, so that those that run are known. It may wait for discover to find
	// them. Nil: the observation runs already.
	Begin func(discover time.Duration) error
	// Describe returns what the observation does, for the log line of its start, with the fields of that line.
	Describe func() (action string, fields []zap.Field)
}

// Environment is what the engine provides to an observation.
type Environment struct {
	Host Host
	// Loader loads programs, Maps are the maps that all observations use.
	Loader *kernel.Loader
	Maps   map[string]*ebpf.Map
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
	Logger            *zap.Logger

	// LimitBytes is the memory limit of the receiver. TableBytes bounds the kernel's tables, SampleBytes the samples of an interval. SocketBytes is
	// the memory of which tables of sockets, connections and requests have their shares; 0 for kinds without [Descriptor.TracksSockets].
	LimitBytes, TableBytes, SampleBytes, SocketBytes uint64

	// MetricsByInstance has metrics reported by service instance, whose counts stay when its processes exit; else by process.
	MetricsByInstance bool
	// ExponentialHistograms makes histograms use exponential buckets.
	ExponentialHistograms bool

	// Charge runs work outside of Drain and Report and accounts for its cost. ChargeReducible does so for work that a level reduces, and
	// ChargeBackground for work that can wait for a moment, while the engine drains or reports.
	Charge, ChargeReducible, ChargeBackground func(work func())
	// Decide returns the process that has a pid now, and whether it is in scope of the observation.
	Decide func(pid uint32) (id model.ProcessID, inScope bool)
	// Open reads the mappings of a process.
	Open func(id model.ProcessID) (*symbol.AddressSpace, error)
	// Settle waits until the discovered processes have unwind tables, for most at the longest. Nil: there are none.
	Settle func(most time.Duration)
	// Answered takes the requests that processes have answered, for policies. Nil: they are not needed.
	Answered func(Answer)

	// Degrade reports that a capability, such as on_cpu.event, is less than configured. Unavailable reports so, too, and sets the status of the
	// receiver.
	Degrade, Unavailable func(capability string, why error)
}
