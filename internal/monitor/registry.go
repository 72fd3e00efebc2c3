// SPDX-License-Identifier: Apache-2.0

package monitor

import "slices"

// All returns all monitors.
func All() []*Descriptor { return slices.Clone(all) }

// Named returns the monitor of a name, nil if there is none.
func Named(name string) *Descriptor {
	for _, d := range all {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// Names returns the names of those monitors that match, in the order of the list; of all if match is nil.
func Names(match func(*Descriptor) bool) []string {
	var names []string
	for _, d := range all {
		if match == nil || match(d) {
			names = append(names, d.Name)
		}
	}
	return names
}
