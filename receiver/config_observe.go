// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"reflect"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/kinds"
)

// ObserveConfig lists the kinds of observation that run from start to shutdown, with their options; a kind that is not listed does not run. Its
// keys are the names of the kinds.
type ObserveConfig struct {
	perKind[observe.Options]
}

var _ confmap.Unmarshaler = (*ObserveConfig)(nil)

// defaultObserve lists the kinds that run where the configuration has no key observe.
func defaultObserve() ObserveConfig {
	var c ObserveConfig
	for _, kind := range kinds.Configurable() {
		if kind.RunsByDefault {
			c.list(kind.Name, kind.Default())
		}
	}
	return c
}

// Unmarshal reads the options of the listed kinds over their defaults.
func (c *ObserveConfig) Unmarshal(conf *confmap.Conf) error { return c.unmarshal(conf, readOptions) }

func (c *ObserveConfig) validate(limits observe.Limits) []error {
	var errs []error
	c.each(func(kind *observe.Descriptor, options observe.Options) {
		errs = append(errs, options.Validate(placeOfKinds+string(kind.Name), limits)...)
	})
	return errs
}

// plans are what the engine runs. Kinds whose results no pipeline takes do not run.
func (c *ObserveConfig) plans(taken observe.Signals) []observe.Plan {
	var list []observe.Plan
	c.each(func(_ *observe.Descriptor, options observe.Options) {
		if plan := options.Plan(taken); plan != nil {
			list = append(list, plan)
		}
	})
	return list
}

// observeType and runType have a field for each kind, with its name as the key: [ObserveConfig] and [RunConfig] are checked as if they were
// declared so. The fields of runType have the additional key duration.
var (
	observeType = typeOfKinds(func(options reflect.Type) reflect.Type { return options })
	runType     = typeOfKinds(func(options reflect.Type) reflect.Type {
		return reflect.StructOf([]reflect.StructField{
			{Name: "Options", Type: options, Tag: `mapstructure:",squash"`},
			{Name: "Duration", Type: reflect.TypeFor[runDuration]().Field(0).Type, Tag: reflect.TypeFor[runDuration]().Field(0).Tag},
		})
	})
)

// typeOfKinds returns a struct with a field for each kind that users can configure, whose type is derived from that of its options.
func typeOfKinds(of func(options reflect.Type) reflect.Type) reflect.Type {
	var fields []reflect.StructField
	for _, kind := range kinds.Configurable() {
		fields = append(fields, reflect.StructField{
			Name: "Kind" + string(kind.Name), Type: reflect.PointerTo(of(reflect.TypeOf(kind.Default()).Elem())),
			Tag: reflect.StructTag(`mapstructure:"` + string(kind.Name) + `"`),
		})
	}
	return reflect.StructOf(fields)
}
