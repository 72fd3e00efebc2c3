// SPDX-License-Identifier: Apache-2.0

package componenthealth

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// convert returns a configuration as the converter leaves it.
func convert(t *testing.T, registry *featuregate.Registry, logger *zap.Logger, config map[string]any) map[string]any {
	t.Helper()
	conf := confmap.NewFromStringMap(config)
	converter := newFactory(registry).Create(confmap.ConverterSettings{Logger: logger})
	require.NoError(t, converter.Convert(t.Context(), conf))
	require.NoError(t, converter.Convert(t.Context(), conf), "a reload of the configuration converts again")
	return conf.ToStringMap()
}

// TestHealthFollowsComponents checks that the gate is on, what is added, and that the user's own setting stays.
func TestHealthFollowsComponents(t *testing.T) {
	registry := featuregate.NewRegistry()
	gate := registry.MustRegister(GateID, featuregate.StageAlpha)
	permanent := map[string]any{"include_permanent_errors": true}
	own := map[string]any{"include_recoverable_errors": true}
	require.Equal(t, map[string]any{
		"extensions": map[string]any{
			"health_check":   map[string]any{"component_health": permanent},
			"health_check/a": map[string]any{"endpoint": "x", "component_health": permanent},
			"health_check/b": map[string]any{"component_health": own},
			"zpages":         nil,
		},
	}, convert(t, registry, zap.NewNop(), map[string]any{
		"extensions": map[string]any{
			"health_check": nil, "health_check/a": map[string]any{"endpoint": "x"}, "health_check/b": map[string]any{"component_health": own}, "zpages": nil,
		},
	}))
	require.True(t, gate.IsEnabled())

	require.NoError(t, registry.Set(GateID, false), "as the command line's --feature-gates does")
	require.False(t, gate.IsEnabled())

	for _, other := range []map[string]any{{}, {"extensions": nil}, {"extensions": "x"}, {"receivers": map[string]any{"ebpf": nil}}} {
		require.Equal(t, confmap.NewFromStringMap(other).ToStringMap(), convert(t, registry, zap.NewNop(), other))
	}
}

// TestWithoutTheGate checks that a Collector without the gate starts, and logs once what health_check does not say.
func TestWithoutTheGate(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	config := map[string]any{"extensions": map[string]any{"health_check": map[string]any{"endpoint": "x"}}}
	require.Equal(t, config, convert(t, featuregate.NewRegistry(), zap.New(core), config))
	require.Equal(t, 1, logs.Len())
	require.Contains(t, logs.All()[0].Message, "--feature-gates="+GateID)

	convert(t, featuregate.NewRegistry(), zap.New(core), map[string]any{"extensions": map[string]any{"zpages": nil}})
	require.Equal(t, 1, logs.Len(), "without the extension nothing is missing")
}
