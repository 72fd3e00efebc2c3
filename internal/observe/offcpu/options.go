// SPDX-License-Identifier: Apache-2.0

package offcpu

import (
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// Name is the name of the kind.
const Name observe.Kind = "off_cpu"

// Descriptor describes the kind off_cpu: how long threads wait, where and why.
var Descriptor = &observe.Descriptor{
	Name: Name, Scope: 1 << 1, Pipelines: "profiles", Samples: true,
	Default: func() observe.Options { return DefaultOptions() },
}

// Options configure the kind.
type Options struct {
	observe.Common `mapstructure:",squash"`
	stacks.Options `mapstructure:",squash"`
	// MinBlock is the shortest wait that is exported with its stack; shorter ones are
	// summed for each thread.
	MinBlock time.Duration `mapstructure:"min_block"`
	// MaxBlock is the longest wait that is exported; 0: no maximum.
	MaxBlock time.Duration `mapstructure:"max_block"`
}

const (
	maxMinBlock = time.Minute
	maxMaxBlock = 24 * time.Hour
)

// DefaultOptions returns the default configuration.
func DefaultOptions() *Options {
	return &Options{Common: observe.DefaultCommon(), Options: stacks.DefaultOptions(), MinBlock: time.Millisecond}
}

// Validate implements [observe.Options].
func (o *Options) Validate(path string, _ observe.Limits) []error {
	errs := []error{
		setting.Between(path+"::min_block", o.MinBlock, 0, maxMinBlock),
		setting.Between(path+"::max_block", o.MaxBlock, 0, maxMaxBlock),
	}
	if o.MaxBlock > 0 && o.MaxBlock < o.MinBlock {
		errs = append(errs, fmt.Errorf("%s::max_block: %s is not allowed: it must be 0 (no maximum) or at least min_block, which is %s",
			path, o.MaxBlock, o.MinBlock))
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
