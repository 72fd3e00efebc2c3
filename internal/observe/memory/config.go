// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// Config configures both observations of memory.
type Config struct {
	// MapBytes bounds the memory of the kernel's tables, over all CPUs.
	MapBytes uint64
	// SampleBytes bounds the memory of one interval's samples in user space.
	SampleBytes uint64
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
	// Plain does without what only some kernels have, as on the others: tracepoints
	// of page faults, sessions of uprobes.
	Plain bool
}

// MallocConfig configures the observation of allocators.
type MallocConfig struct {
	Config
	// Distance is the mean number of allocated bytes between two samples, at most
	// [MaxDistance].
	Distance uint64
	// Live matches frees, so that memory in use is reported, too.
	Live bool
	// Decide says who has a pid now, and whether it is in scope.
	Decide func(pid uint32) (id model.ProcessID, inScope bool)
	// Open reads the mappings of a process.
	Open func(id model.ProcessID) (*symbol.AddressSpace, error)
	// Charge runs work done for the observation and notes its cost.
	Charge func(work func())
	Logger *zap.Logger
}

// MaxDistance is the longest mean distance between two samples, in bytes.
const MaxDistance = 64 << 20
