// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/kinds"
)

// perKind has a value for each kind of observation that a part of the configuration lists. The keys of that part are the names of the kinds.
type perKind[T any] struct {
	listed map[observe.Kind]T
}

func (p *perKind[T]) list(kind observe.Kind, value T) {
	if p.listed == nil {
		p.listed = map[observe.Kind]T{}
	}
	p.listed[kind] = value
}

// each calls a function with the listed kinds, in the order of the list of kinds.
func (p *perKind[T]) each(call func(kind *observe.Descriptor, value T)) {
	for _, kind := range kinds.Configurable() {
		if value, ok := p.listed[kind.Name]; ok {
			call(kind, value)
		}
	}
}

// unmarshal lists the kinds whose names are keys, with what read makes of their fields.
func (p *perKind[T]) unmarshal(conf *confmap.Conf, read func(kind *observe.Descriptor, fields *confmap.Conf) (T, error)) error {
	p.listed = nil
	for _, kind := range kinds.Configurable() {
		if !conf.IsSet(string(kind.Name)) {
			continue
		}
		fields, err := conf.Sub(string(kind.Name))
		if err != nil {
			return err
		}
		value, err := read(kind, fields)
		if err != nil {
			return err
		}
		p.list(kind.Name, value)
	}
	return nil
}

// readOptions reads the options of a kind over their defaults.
func readOptions(kind *observe.Descriptor, fields *confmap.Conf) (observe.Options, error) {
	options := kind.Default()
	return options, fields.Unmarshal(options)
}
