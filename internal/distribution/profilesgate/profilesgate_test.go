// SPDX-License-Identifier: Apache-2.0

package profilesgate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestFactoryEnablesGate checks that making the factory is enough and that what the user says later wins.
func TestFactoryEnablesGate(t *testing.T) {
	reg := featuregate.NewRegistry()
	gate := reg.MustRegister(GateID, featuregate.StageAlpha)
	require.False(t, gate.IsEnabled())

	newFactory(reg)
	require.True(t, gate.IsEnabled())

	require.NoError(t, reg.Set(GateID, false)) // as the command line's --feature-gates does
	require.False(t, gate.IsEnabled())
}

// TestConverterLeavesConfiguration checks that the converter neither changes the configuration nor logs when all is well.
func TestConverterLeavesConfiguration(t *testing.T) {
	reg := featuregate.NewRegistry()
	reg.MustRegister(GateID, featuregate.StageAlpha)
	core, logs := observer.New(zap.DebugLevel)
	conv := newFactory(reg).Create(confmap.ConverterSettings{Logger: zap.New(core)})

	want := map[string]any{"receivers": map[string]any{"ebpf": nil}, "service": map[string]any{"pipelines": "x"}}
	conf := confmap.NewFromStringMap(want)
	require.NoError(t, conv.Convert(context.Background(), conf))
	require.Equal(t, want, conf.ToStringMap())
	require.Zero(t, logs.Len())
}

// TestMissingGateIsSaidOnce checks that a Collector without the gate still starts and says what to try.
func TestMissingGateIsSaidOnce(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	conv := newFactory(featuregate.NewRegistry()).Create(confmap.ConverterSettings{Logger: zap.New(core)})

	for range 2 { // a reload of the configuration converts again
		require.NoError(t, conv.Convert(context.Background(), confmap.New()))
	}
	require.Equal(t, 1, logs.Len())
	entry := logs.All()[0]
	require.Equal(t, zap.WarnLevel, entry.Level)
	require.Contains(t, entry.Message, "--feature-gates=service.profilesSupport")
	require.Contains(t, entry.ContextMap()["error"], "enabling the feature gate service.profilesSupport")
}

// TestEnableUsesGlobalRegistry checks that the exported factory talks to the registry that the Collector reads.
func TestEnableUsesGlobalRegistry(t *testing.T) {
	gate := featuregate.GlobalRegistry().MustRegister(GateID, featuregate.StageAlpha)
	NewFactory()
	require.True(t, gate.IsEnabled())
}
