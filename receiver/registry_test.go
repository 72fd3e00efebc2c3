// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// TestPipelinesShareAReceiver checks that there is one receiver for each configuration, however many pipelines list it.
func TestPipelinesShareAReceiver(t *testing.T) {
	factory := NewFactory().(xreceiver.Factory)
	settings := receivertest.NewNopSettings(metadata.Type)
	one, two := createDefaultConfig(), createDefaultConfig()
	profiles, err := factory.CreateProfiles(t.Context(), settings, one, consumertest.NewNop())
	require.NoError(t, err)
	metrics, err := factory.CreateMetrics(t.Context(), settings, one, consumertest.NewNop())
	require.NoError(t, err)
	logs, err := factory.CreateLogs(t.Context(), settings, one, consumertest.NewNop())
	require.NoError(t, err)
	traces, err := factory.CreateTraces(t.Context(), settings, one, consumertest.NewNop())
	require.NoError(t, err)
	require.Same(t, profiles, metrics)
	require.Same(t, profiles, logs)
	require.Same(t, profiles, traces)

	other, err := factory.CreateProfiles(t.Context(), settings, two, consumertest.NewNop())
	require.NoError(t, err)
	require.NotSame(t, profiles, other, "equal is not the same")

	require.NoError(t, profiles.Shutdown(t.Context()))
	require.NoError(t, metrics.Shutdown(t.Context()), "the second pipeline")
	again, err := factory.CreateProfiles(t.Context(), settings, one, consumertest.NewNop())
	require.NoError(t, err)
	require.NotSame(t, profiles, again, "what was stopped is not used again")
	require.NoError(t, other.Shutdown(t.Context()))
	require.NoError(t, again.Shutdown(t.Context()))
}

func TestFactoryType(t *testing.T) {
	require.Equal(t, "ebpf", NewFactory().Type().String())
}
