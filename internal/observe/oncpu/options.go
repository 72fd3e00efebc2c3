// SPDX-License-Identifier: Apache-2.0

package oncpu

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// Name is the name of the kind.
const Name observe.Kind = "on_cpu"

// Descriptor describes the kind on_cpu: what runs on the CPUs.
var Descriptor = &observe.Descriptor{
	Name: Name, Scope: 1 << 0, Pipelines: "profiles", RunsByDefault: true, Samples: true,
	Default: func() observe.Options { return DefaultOptions() },
}

// Options configure the kind.
type Options struct {
	observe.Common `mapstructure:",squash"`
	stacks.Options `mapstructure:",squash"`
	// Period is the time between two samples on each CPU.
	Period time.Duration `mapstructure:"period"`
	// Event is cpu_clock or cycles.
	Event string `mapstructure:"event"`
}

// Values of Options.Event.
const (
	eventCPUClock = "cpu_clock" // the timer of the CPU
	EventCycles   = "cycles"    // the hardware's cycle counter, where there is one
)

const (
	minPeriod = time.Millisecond
	maxPeriod = time.Second
)

// DefaultOptions returns the default configuration.
func DefaultOptions() *Options {
	return &Options{Common: observe.DefaultCommon(), Options: stacks.DefaultOptions(), Period: 9 * time.Millisecond, Event: eventCPUClock}
}

// Validate implements [observe.Options].
func (o *Options) Validate(path string, _ observe.Limits) []error {
	errs := []error{setting.Between(path+"::period", o.Period, minPeriod, maxPeriod)}
	if o.Event != eventCPUClock && o.Event != EventCycles {
		errs = append(errs, fmt.Errorf("%s::event: %q is not allowed: it must be %s or %s", path, o.Event, eventCPUClock, EventCycles))
	}
	errs = append(errs, o.ValidateCommon(path)...)
	return append(errs, o.ValidateStacks(path)...)
}

// Plan implements [observe.Options].
func (o *Options) Plan(taken observe.Signals) observe.Plan {
	if !taken.Profiles {
		return nil
	}
	return o
}

// Kind implements [observe.Plan].
func (*Options) Kind() observe.Kind { return Name }
