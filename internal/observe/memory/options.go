// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// Name is the name of the kind.
const Name observe.Kind = "memory"

// Descriptor describes the kind memory: page faults, or sampled allocations.
var Descriptor = &observe.Descriptor{
	Name: Name, Scope: 1 << 2, Pipelines: "profiles", Samples: true,
	Default: func() observe.Options { return DefaultOptions() },
}

// Options configure the kind.
type Options struct {
	observe.Common `mapstructure:",squash"`
	// Source is page_faults or malloc.
	Source string `mapstructure:"source"`
	// SampleBytes is the mean distance between two sampled allocations, of malloc.
	SampleBytes setting.ByteSize `mapstructure:"sample_bytes"`
	// Live matches frees, so that memory in use is exported, too, for malloc.
	Live bool `mapstructure:"live"`
	// Plain uses no feature that only some kernels have, for tests.
	Plain bool `mapstructure:"-"`
}

// Values of Options.Source.
const (
	SourcePageFaults = "page_faults"
	SourceMalloc     = "malloc"
)

const (
	minSampleBytes setting.ByteSize = 1 << 10
	maxSampleBytes setting.ByteSize = 64 << 20
)

// DefaultOptions returns the default configuration.
func DefaultOptions() *Options {
	return &Options{Common: observe.DefaultCommon(), Source: SourcePageFaults, SampleBytes: 512 << 10, Live: true}
}

// Validate implements [observe.Options].
func (o *Options) Validate(path string, _ observe.Limits) []error {
	errs := []error{setting.Between(path+"::sample_bytes", o.SampleBytes, minSampleBytes, maxSampleBytes)}
	if o.Source != SourcePageFaults && o.Source != SourceMalloc {
		errs = append(errs, fmt.Errorf("%s::source: %q is not allowed: it must be %s or %s", path, o.Source, SourcePageFaults, SourceMalloc))
	}
	return append(errs, o.ValidateCommon(path)...)
}

// Plan implements [observe.Options]. Page faults have none of the options of malloc, so that observations of them are equal.
func (o *Options) Plan(taken observe.Signals) observe.Plan {
	switch {
	case !taken.Profiles:
		return nil
	case o.Source == SourceMalloc:
		return o
	}
	return &Options{Common: o.Common, Source: SourcePageFaults, Plain: o.Plain}
}

// Kind implements [observe.Plan].
func (*Options) Kind() observe.Kind { return Name }

// Needs implements [observe.Plan].
func (*Options) Needs() observe.Needs { return observe.Needs{UserStacks: true, Mappings: true} }
