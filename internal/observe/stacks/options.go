// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// Options are the fields of kinds that take both stacks. A kind's options embed it with the tag `mapstructure:",squash"`.
type Options struct {
	// KernelStacks and UserStacks say which stacks a sample has: at least one.
	KernelStacks bool `mapstructure:"kernel_stacks"`
	UserStacks   bool `mapstructure:"user_stacks"`
	// MaxDepth is the number of frames of each of the two stacks. The kernel's own has
	// 127 at most (its sysctl kernel.perf_event_max_stack, and what programs can take).
	MaxDepth int `mapstructure:"max_depth"`
}

// DefaultOptions are the defaults of the configuration.
func DefaultOptions() Options {
	return Options{KernelStacks: true, UserStacks: true, MaxDepth: DefaultDepth}
}

// Needs implements part of [observe.Plan].
func (o *Options) Needs() observe.Needs {
	return observe.Needs{UserStacks: o.UserStacks, Mappings: o.UserStacks}
}

// ValidateStacks checks every value.
func (o *Options) ValidateStacks(path string) []error {
	errs := []error{setting.Between(path+"::max_depth", o.MaxDepth, 1, MaxDepth)}
	if !o.KernelStacks && !o.UserStacks {
		errs = append(errs, fmt.Errorf("%s::user_stacks: false is not allowed where kernel_stacks is false: samples would have no stacks", path))
	}
	return errs
}
