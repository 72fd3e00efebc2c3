// SPDX-License-Identifier: Apache-2.0

// Package kinds lists the kinds of observation.
package kinds

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// All returns all kinds, including those that the engine starts for its own use.
func All() []*observe.Descriptor { return slices.Clone(all) }

// Configurable returns the kinds that users can configure.
func Configurable() []*observe.Descriptor {
	return slices.DeleteFunc(All(), func(d *observe.Descriptor) bool { return d.Default == nil })
}

// Named returns the kind of a name, nil if there is none.
func Named(name observe.Kind) *observe.Descriptor {
	for _, d := range all {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// Of returns the kind of a plan.
func Of(p observe.Plan) *observe.Descriptor { return Named(p.Kind()) }
