// SPDX-License-Identifier: Apache-2.0

// Package protocol lists the protocols whose requests can be exported. Each is in a folder of its own.
package protocol

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// accepted is a name that the configuration accepts, although nothing is parsed yet.
func accepted(name string) *l7.Descriptor { return &l7.Descriptor{Name: name} }

// Names returns the names that the configuration accepts.
func Names() []string { return namesOf(func(*l7.Descriptor) bool { return true }) }

// Parsed returns the names of the protocols that are parsed.
func Parsed() []string { return namesOf(func(d *l7.Descriptor) bool { return d.New != nil }) }

// Monitored returns the names of the protocols that the policies' monitors of requests evaluate.
func Monitored() []string { return namesOf(func(d *l7.Descriptor) bool { return d.Monitored }) }

// namesOf returns the names of the protocols for which is holds.
func namesOf(is func(*l7.Descriptor) bool) (names []string) {
	for _, d := range list {
		if is(d) {
			names = append(names, d.Name)
		}
	}
	return names
}

// All returns the protocols that are parsed.
func All() []*l7.Descriptor {
	return slices.DeleteFunc(slices.Clone(list), func(d *l7.Descriptor) bool { return d.New == nil })
}

// Find returns the protocol of a name, nil if there is none that is parsed.
func Find(name string) *l7.Descriptor {
	for _, d := range All() {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// Operations returns the kinds of operations of all protocols.
func Operations() (kinds []*l7.Semantics) {
	for _, d := range All() {
		for _, s := range d.Operations {
			if !slices.Contains(kinds, s) {
				kinds = append(kinds, s)
			}
		}
	}
	return kinds
}

// Descriptors returns the descriptors of the metrics of all protocols.
func Descriptors() (metrics []*model.Descriptor) {
	for _, s := range Operations() {
		metrics = append(metrics, s.Descriptors()...)
	}
	return metrics
}

// Dictionaries returns those of all protocols.
func Dictionaries() (dictionaries []*l7.Dictionary) {
	for _, s := range Operations() {
		dictionaries = append(dictionaries, s.Dictionaries...)
	}
	return dictionaries
}
