// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// MemoryConfig is the kind memory: page faults, or sampled allocations.
type MemoryConfig struct {
	KindConfig `mapstructure:",squash"`
	// Source is page_faults or malloc.
	Source string `mapstructure:"source"`
	// SampleBytes is the mean distance between two sampled allocations, of malloc.
	SampleBytes ByteSize `mapstructure:"sample_bytes"`
	// Live matches frees, so that what is in use is told, too, of malloc.
	Live bool `mapstructure:"live"`
}

// Values of MemoryConfig.Source.
const (
	sourcePageFaults = "page_faults"
	sourceMalloc     = "malloc"
)

const (
	minSampleBytes ByteSize = 1 << 10
	maxSampleBytes ByteSize = 64 << 20
)

func defaultMemory() MemoryConfig {
	return MemoryConfig{
		KindConfig:  defaultKind(),
		Source:      sourcePageFaults,
		SampleBytes: 512 << 10,
		Live:        true,
	}
}

func (c *MemoryConfig) validate(path string) []error {
	errs := []error{between(path+"::sample_bytes", c.SampleBytes, minSampleBytes, maxSampleBytes)}
	if c.Source != sourcePageFaults && c.Source != sourceMalloc {
		errs = append(errs, fmt.Errorf("%s::source: %q is not allowed: it must be %s or %s", path, c.Source, sourcePageFaults, sourceMalloc))
	}
	return append(errs, c.KindConfig.validate(path)...)
}

// engine says what the engine must do.
func (c *MemoryConfig) engine() *engine.Memory {
	memory := &engine.Memory{Targets: selectors(c.Targets), ReportInterval: c.ReportInterval}
	if c.Source == sourceMalloc {
		memory.Distance, memory.Live = uint64(c.SampleBytes), c.Live
	}
	return memory
}
