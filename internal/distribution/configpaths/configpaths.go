// SPDX-License-Identifier: Apache-2.0

// Package configpaths reports what is wrong with the configuration of a receiver with full paths, in the distribution
// otelcol-ebpf only.
//
// A receiver's configuration does not know the receiver's name, of which there may be several (ebpf, ebpf/web), and the
// Collector writes it before the first of several errors alone. A converter of configuration, which is what ocb lets a
// distribution add, sees the whole: it checks each receiver as the Collector would soon do, and changes nothing.
package configpaths // import "github.com/otelcol-ebpf/ebpfreceiver/internal/distribution/configpaths"

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	collectorreceiver "go.opentelemetry.io/collector/receiver"

	"github.com/otelcol-ebpf/ebpfreceiver/receiver"
)

const section = "receivers"

// NewFactory returns the factory of the converter.
func NewFactory() confmap.ConverterFactory {
	return confmap.NewConverterFactory(func(confmap.ConverterSettings) confmap.Converter {
		return checker{receiver.NewFactory()}
	})
}

type checker struct{ factory collectorreceiver.Factory }

// Convert changes nothing. Its error has a line for each key that is wrong, beginning with the key's full path.
func (c checker) Convert(_ context.Context, conf *confmap.Conf) error {
	all, err := conf.Sub(section)
	if err != nil {
		return nil //nolint:nilerr // it is no map: the Collector says so
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all.ToStringMap())) {
		var id component.ID
		if id.UnmarshalText([]byte(name)) != nil || id.Type() != c.factory.Type() {
			continue
		}
		one, err := all.Sub(name)
		if err != nil {
			continue // as above
		}
		for _, err := range parts(check(c.factory.CreateDefaultConfig(), one)) {
			errs = append(errs, fmt.Errorf("%s::%s::%w", section, name, err))
		}
	}
	return errors.Join(errs...)
}

// check reads a configuration and validates it.
func check(config component.Config, given *confmap.Conf) error {
	if err := config.(confmap.Unmarshaler).Unmarshal(given); err != nil {
		return err
	}
	return config.(confmap.Validator).Validate()
}

// parts are the errors that were joined.
func parts(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}
