// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// OnCPUConfig is the kind on_cpu: what runs on the CPUs.
type OnCPUConfig struct {
	KindConfig   `mapstructure:",squash"`
	StacksConfig `mapstructure:",squash"`
	// Period is the time between two samples on each CPU.
	Period time.Duration `mapstructure:"period"`
	// Event is cpu_clock or cycles.
	Event string `mapstructure:"event"`
}

// Values of OnCPUConfig.Event.
const (
	eventCPUClock = "cpu_clock"
	eventCycles   = "cycles"
)

const (
	minPeriod = time.Millisecond
	maxPeriod = time.Second
)

func defaultOnCPU() OnCPUConfig {
	return OnCPUConfig{
		KindConfig:   defaultKind(),
		StacksConfig: defaultStacks(),
		Period:       9 * time.Millisecond,
		Event:        eventCPUClock,
	}
}

func (c *OnCPUConfig) validate(path string) []error {
	errs := []error{between(path+"::period", c.Period, minPeriod, maxPeriod)}
	if c.Event != eventCPUClock && c.Event != eventCycles {
		errs = append(errs, fmt.Errorf("%s::event: %q is not allowed: it must be %s or %s", path, c.Event, eventCPUClock, eventCycles))
	}
	errs = append(errs, c.KindConfig.validate(path)...)
	return append(errs, c.StacksConfig.validate(path)...)
}

// engine says what the engine must do.
func (c *OnCPUConfig) engine() *engine.OnCPU {
	return &engine.OnCPU{
		Targets:        selectors(c.Targets),
		Period:         c.Period,
		ReportInterval: c.ReportInterval,
		Cycles:         c.Event == eventCycles,
		KernelStacks:   c.KernelStacks,
		UserStacks:     c.UserStacks,
		MaxDepth:       c.MaxDepth,
	}
}
