// SPDX-License-Identifier: Apache-2.0

// Package componenthealth has the extension health_check report what components report of themselves, in the distributions of this
// project only.
//
// By default the extension answers 200 OK as long as the Collector runs, also when the receiver could not start and observes nothing. With the feature
// gate extension.healthcheck.useComponentStatus it follows the components' status, and with component_health::include_permanent_errors it
// answers 500 where one has failed for good. The package turns the gate on, and adds that setting to each health_check that has no
// component_health of its own.
//
// It comes as a converter of configuration, whose factory is made before the command line is parsed, as profilesgate's is: a user's
// `--feature-gates=-extension.healthcheck.useComponentStatus` wins.
package componenthealth // import "github.com/otelcol-ebpf/ebpfreceiver/internal/distribution/componenthealth"

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
	"go.uber.org/zap"
)

// GateID is the extension's name of the gate.
const GateID = "extension.healthcheck.useComponentStatus"

// The extension's type, and what is added to its configuration.
const (
	extensionType = "health_check"
	healthKey     = "component_health"
	permanentKey  = "include_permanent_errors"
)

// NewFactory enables the gate in the global registry and returns a converter that adds the setting.
func NewFactory() confmap.ConverterFactory {
	return newFactory(featuregate.GlobalRegistry())
}

func newFactory(registry *featuregate.Registry) confmap.ConverterFactory {
	err := registry.Set(GateID, true)
	return confmap.NewConverterFactory(func(set confmap.ConverterSettings) confmap.Converter {
		return &converter{logger: set.Logger, err: err}
	})
}

type converter struct {
	logger *zap.Logger
	err    error // why the gate could not be enabled
}

// Convert adds the setting to the extensions that lack it. Where the gate cannot be enabled it leaves the configuration as it is.
func (c *converter) Convert(_ context.Context, conf *confmap.Conf) error {
	extensions, ok := conf.Get("extensions").(map[string]any)
	if !ok {
		return nil
	}
	added := map[string]any{}
	for id, settings := range extensions {
		kind, _, _ := strings.Cut(id, "/")
		configured, _ := settings.(map[string]any)
		if _, has := configured[healthKey]; kind == extensionType && !has {
			added[id] = map[string]any{healthKey: map[string]any{permanentKey: true}}
		}
	}
	switch {
	case len(added) == 0:
		return nil
	case c.err != nil:
		c.warn()
		return nil
	}
	if err := conf.Merge(confmap.NewFromStringMap(map[string]any{"extensions": added})); err != nil {
		return fmt.Errorf("adding %s to %s: %w", healthKey, extensionType, err)
	}
	return nil
}

// warn logs once why the extension does not follow the components' status.
func (c *converter) warn() {
	if c.logger != nil {
		c.logger.Warn("health_check answers 200 OK whatever components report; if it can do otherwise, start with --feature-gates="+GateID, zap.Error(c.err))
		c.logger = nil
	}
}
