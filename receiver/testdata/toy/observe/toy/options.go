// SPDX-License-Identifier: Apache-2.0

// Package toy exports the oom_score_adj of processes, times a factor.
package toy

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// Name is the name of the kind.
const Name observe.Kind = "toy"

// Descriptor describes the kind.
var Descriptor = &observe.Descriptor{
	Name: Name, Scope: 1 << 15, Pipelines: "metrics",
	Default: func() observe.Options { return &Options{Common: observe.DefaultCommon(), Factor: 1} },
}

// Options configure the kind.
type Options struct {
	observe.Common `mapstructure:",squash"`
	// Factor is what the value is multiplied with.
	Factor int `mapstructure:"factor"`
}

// Validate implements [observe.Options].
func (o *Options) Validate(path string, _ observe.Limits) []error {
	return append(o.ValidateCommon(path), setting.Between(path+"::factor", o.Factor, 1, 10))
}

// Plan implements [observe.Options].
func (o *Options) Plan(taken observe.Signals) observe.Plan {
	if !taken.Metrics {
		return nil
	}
	return o
}

// Kind implements [observe.Plan].
func (*Options) Kind() observe.Kind { return Name }

// Needs implements [observe.Plan].
func (*Options) Needs() observe.Needs { return observe.Needs{} }
