// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"time"
)

// OnCPUConfig is the kind on_cpu: what runs on the CPUs.
type OnCPUConfig struct {
	// Targets narrows the receiver's own targets.
	Targets []SelectorConfig `mapstructure:"targets"`
	// Period is the time between two samples on each CPU.
	Period time.Duration `mapstructure:"period"`
	// ReportInterval is the time between two profiles.
	ReportInterval time.Duration `mapstructure:"report_interval"`
	// Event is cpu_clock or cycles.
	Event string `mapstructure:"event"`
	// KernelStacks and UserStacks say which stacks a sample has: at least one.
	KernelStacks bool `mapstructure:"kernel_stacks"`
	UserStacks   bool `mapstructure:"user_stacks"`
	// MaxDepth is the number of frames of each of the two stacks.
	MaxDepth int `mapstructure:"max_depth"`
}

// Values of OnCPUConfig.Event.
const (
	eventCPUClock = "cpu_clock"
	eventCycles   = "cycles"
)

const (
	minPeriod         = time.Millisecond
	maxPeriod         = time.Second
	minReportInterval = time.Second
	maxReportInterval = 10 * time.Minute
	maxDepth          = 127
)

func defaultOnCPU() OnCPUConfig {
	return OnCPUConfig{
		Period:         9 * time.Millisecond,
		ReportInterval: 5 * time.Second,
		Event:          eventCPUClock,
		KernelStacks:   true,
		UserStacks:     true,
		MaxDepth:       maxDepth,
	}
}

func (c *OnCPUConfig) validate(path string) []error {
	errs := []error{
		between(path+"::period", c.Period, minPeriod, maxPeriod),
		between(path+"::report_interval", c.ReportInterval, minReportInterval, maxReportInterval),
		between(path+"::max_depth", c.MaxDepth, 1, maxDepth),
	}
	if c.Event != eventCPUClock && c.Event != eventCycles {
		errs = append(errs, fmt.Errorf("%s::event: %q is not allowed: it must be %s or %s", path, c.Event, eventCPUClock, eventCycles))
	}
	if !c.KernelStacks && !c.UserStacks {
		errs = append(errs, fmt.Errorf("%s::user_stacks: false is not allowed where kernel_stacks is false: samples would have no stacks", path))
	}
	errs = append(errs, validateSelectors(path+"::targets", c.Targets)...)
	return append(errs, withoutSet(path+"::targets", c.Targets)...)
}
