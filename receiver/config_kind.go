// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"time"
)

// KindConfig is what every kind of observation has.
type KindConfig struct {
	// Targets narrows the receiver's own targets.
	Targets []SelectorConfig `mapstructure:"targets"`
	// ReportInterval is the time between two reports.
	ReportInterval time.Duration `mapstructure:"report_interval"`
}

// StacksConfig is what kinds have that take both stacks.
type StacksConfig struct {
	// KernelStacks and UserStacks say which stacks a sample has: at least one.
	KernelStacks bool `mapstructure:"kernel_stacks"`
	UserStacks   bool `mapstructure:"user_stacks"`
	// MaxDepth is the number of frames of each of the two stacks. The kernel's own has
	// 127 at most (its sysctl kernel.perf_event_max_stack, and what programs can take).
	MaxDepth int `mapstructure:"max_depth"`
}

const (
	minReportInterval = time.Second
	maxReportInterval = 10 * time.Minute
	maxDepth          = 1023
	defaultDepth      = 127
)

func defaultKind() KindConfig { return KindConfig{ReportInterval: 5 * time.Second} }

func defaultStacks() StacksConfig {
	return StacksConfig{KernelStacks: true, UserStacks: true, MaxDepth: defaultDepth}
}

func (c *KindConfig) validate(path string) []error {
	errs := []error{between(path+"::report_interval", c.ReportInterval, minReportInterval, maxReportInterval)}
	errs = append(errs, validateSelectors(path+"::targets", c.Targets)...)
	return append(errs, withoutSet(path+"::targets", c.Targets)...)
}

func (c *StacksConfig) validate(path string) []error {
	errs := []error{between(path+"::max_depth", c.MaxDepth, 1, maxDepth)}
	if !c.KernelStacks && !c.UserStacks {
		errs = append(errs, fmt.Errorf("%s::user_stacks: false is not allowed where kernel_stacks is false: samples would have no stacks", path))
	}
	return errs
}
