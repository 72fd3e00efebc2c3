// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"time"
)

// OffCPUConfig is the kind off_cpu: how long threads wait, where and why.
type OffCPUConfig struct {
	// Targets narrows the receiver's own targets.
	Targets []SelectorConfig `mapstructure:"targets"`
	// MinBlock is the shortest wait that is told with its stack; shorter ones are
	// summed for each thread.
	MinBlock time.Duration `mapstructure:"min_block"`
	// MaxBlock is the longest wait that is told at all; 0: no maximum.
	MaxBlock time.Duration `mapstructure:"max_block"`
	// ReportInterval is the time between two profiles.
	ReportInterval time.Duration `mapstructure:"report_interval"`
	// KernelStacks and UserStacks say which stacks a sample has: at least one.
	KernelStacks bool `mapstructure:"kernel_stacks"`
	UserStacks   bool `mapstructure:"user_stacks"`
	// MaxDepth is the number of frames of each of the two stacks.
	MaxDepth int `mapstructure:"max_depth"`
}

const (
	maxMinBlock = time.Minute
	maxMaxBlock = 24 * time.Hour
)

func defaultOffCPU() OffCPUConfig {
	return OffCPUConfig{
		MinBlock:       time.Millisecond,
		ReportInterval: 5 * time.Second,
		KernelStacks:   true,
		UserStacks:     true,
		MaxDepth:       maxDepth,
	}
}

func (c *OffCPUConfig) validate(path string) []error {
	errs := []error{
		between(path+"::min_block", c.MinBlock, 0, maxMinBlock),
		between(path+"::max_block", c.MaxBlock, 0, maxMaxBlock),
		between(path+"::report_interval", c.ReportInterval, minReportInterval, maxReportInterval),
		between(path+"::max_depth", c.MaxDepth, 1, maxDepth),
	}
	if c.MaxBlock > 0 && c.MaxBlock < c.MinBlock {
		errs = append(errs, fmt.Errorf("%s::max_block: %s is not allowed: it must be 0 (no maximum) or at least min_block, which is %s",
			path, c.MaxBlock, c.MinBlock))
	}
	if !c.KernelStacks && !c.UserStacks {
		errs = append(errs, fmt.Errorf("%s::user_stacks: false is not allowed where kernel_stacks is false: samples would have no stacks", path))
	}
	errs = append(errs, validateSelectors(path+"::targets", c.Targets)...)
	return append(errs, withoutSet(path+"::targets", c.Targets)...)
}
