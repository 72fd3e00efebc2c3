// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// OffCPUConfig is the kind off_cpu: how long threads wait, where and why.
type OffCPUConfig struct {
	KindConfig   `mapstructure:",squash"`
	StacksConfig `mapstructure:",squash"`
	// MinBlock is the shortest wait that is told with its stack; shorter ones are
	// summed for each thread.
	MinBlock time.Duration `mapstructure:"min_block"`
	// MaxBlock is the longest wait that is told at all; 0: no maximum.
	MaxBlock time.Duration `mapstructure:"max_block"`
}

const (
	maxMinBlock = time.Minute
	maxMaxBlock = 24 * time.Hour
)

func defaultOffCPU() OffCPUConfig {
	return OffCPUConfig{
		KindConfig:   defaultKind(),
		StacksConfig: defaultStacks(),
		MinBlock:     time.Millisecond,
	}
}

func (c *OffCPUConfig) validate(path string) []error {
	errs := []error{
		between(path+"::min_block", c.MinBlock, 0, maxMinBlock),
		between(path+"::max_block", c.MaxBlock, 0, maxMaxBlock),
	}
	if c.MaxBlock > 0 && c.MaxBlock < c.MinBlock {
		errs = append(errs, fmt.Errorf("%s::max_block: %s is not allowed: it must be 0 (no maximum) or at least min_block, which is %s",
			path, c.MaxBlock, c.MinBlock))
	}
	errs = append(errs, c.KindConfig.validate(path)...)
	return append(errs, c.StacksConfig.validate(path)...)
}

// engine says what the engine must do.
func (c *OffCPUConfig) engine() *engine.OffCPU {
	return &engine.OffCPU{
		Targets:        selectors(c.Targets),
		ReportInterval: c.ReportInterval,
		MinBlock:       c.MinBlock,
		MaxBlock:       c.MaxBlock,
		KernelStacks:   c.KernelStacks,
		UserStacks:     c.UserStacks,
		MaxDepth:       c.MaxDepth,
	}
}
