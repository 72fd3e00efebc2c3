// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// MemoryConfig is the kind memory: page faults, or sampled allocations.
type MemoryConfig struct {
	// Targets narrows the receiver's own targets.
	Targets []SelectorConfig `mapstructure:"targets"`
	// ReportInterval is the time between two profiles.
	ReportInterval time.Duration `mapstructure:"report_interval"`
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
		ReportInterval: 5 * time.Second,
		Source:         sourcePageFaults,
		SampleBytes:    512 << 10,
		Live:           true,
	}
}

func (c *MemoryConfig) validate(path string) []error {
	errs := []error{
		between(path+"::report_interval", c.ReportInterval, minReportInterval, maxReportInterval),
		between(path+"::sample_bytes", c.SampleBytes, minSampleBytes, maxSampleBytes),
	}
	if c.Source != sourcePageFaults && c.Source != sourceMalloc {
		errs = append(errs, fmt.Errorf("%s::source: %q is not allowed: it must be %s or %s", path, c.Source, sourcePageFaults, sourceMalloc))
	}
	errs = append(errs, validateSelectors(path+"::targets", c.Targets)...)
	return append(errs, withoutSet(path+"::targets", c.Targets)...)
}

// engine says what the engine must do.
func (c *MemoryConfig) engine() *engine.Memory {
	memory := &engine.Memory{Targets: selectors(c.Targets), ReportInterval: c.ReportInterval}
	if c.Source == sourceMalloc {
		memory.Distance, memory.Live = uint64(c.SampleBytes), c.Live
	}
	return memory
}
