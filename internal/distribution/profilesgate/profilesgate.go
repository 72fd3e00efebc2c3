// SPDX-License-Identifier: Apache-2.0

// Package profilesgate turns the Collector's feature gate for profiles on, in the distribution otelcol-ebpf only.
//
// The Collector refuses pipelines of profiles unless the gate service.profilesSupport is enabled. A user of
// `otelcol-ebpf --config FILE` wants profiles, so this distribution enables the gate by itself. The receiver does not:
// other people's Collectors keep their own choice.
//
// ocb adds nothing but components, providers and converters to the main that it generates, so the package comes as a
// converter of configuration that changes nothing. What counts is when its factory is made: main calls NewFactory after
// every package has registered its gates and before the command line is parsed, so that a user's
// `--feature-gates=-service.profilesSupport` wins.
package profilesgate // import "github.com/otelcol-ebpf/ebpfreceiver/internal/distribution/profilesgate"

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
	"go.uber.org/zap"
)

// GateID is the Collector's own name of the gate that allows pipelines of profiles.
const GateID = "service.profilesSupport"

// NewFactory enables the gate in the global registry and returns a converter that leaves the configuration as it is.
// Where the gate cannot be enabled, the converter logs why and what to do once the configuration is read.
func NewFactory() confmap.ConverterFactory {
	return newFactory(featuregate.GlobalRegistry())
}

func newFactory(reg *featuregate.Registry) confmap.ConverterFactory {
	err := enable(reg)
	return confmap.NewConverterFactory(func(set confmap.ConverterSettings) confmap.Converter {
		return &reporter{logger: set.Logger, err: err}
	})
}

// enable turns the gate on in reg. It fails where the Collector no longer has the gate or has frozen it.
func enable(reg *featuregate.Registry) error {
	if err := reg.Set(GateID, true); err != nil {
		return fmt.Errorf("enabling the feature gate %s: %w", GateID, err)
	}
	return nil
}

// reporter is the converter: it says once what went wrong with the gate.
type reporter struct {
	logger *zap.Logger
	err    error
}

// Convert changes nothing in the configuration.
func (r *reporter) Convert(context.Context, *confmap.Conf) error {
	if r.err != nil && r.logger != nil {
		r.logger.Warn("pipelines of profiles may be refused; if so, start with --feature-gates="+GateID, zap.Error(r.err))
		r.err = nil
	}
	return nil
}
