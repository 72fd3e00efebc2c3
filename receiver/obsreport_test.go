// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// TestDeliveriesAreReported checks that what the next consumers accept and refuse is counted by item under the names that all receivers have.
func TestDeliveriesAreReported(t *testing.T) {
	tt := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tt.Shutdown(context.Background())) })
	settings := receivertest.NewNopSettings(metadata.Type)
	settings.TelemetrySettings = tt.NewTelemetrySettings()
	report, err := newReport(settings)
	require.NoError(t, err)

	logs := plog.NewLogs()
	logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	metrics := pmetric.NewMetrics()
	points := metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints()
	points.AppendEmpty()
	points.AppendEmpty()
	traces := ptrace.NewTraces()
	spans := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range 3 {
		spans.AppendEmpty()
	}
	profiles := pprofile.NewProfiles()
	samples := profiles.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty().Samples()
	for range 4 {
		samples.AppendEmpty()
	}
	deliver := func(next consumertest.Consumer) []error {
		ctx := context.Background()
		return []error{
			reportedLogs{next, report}.ConsumeLogs(ctx, logs), reportedMetrics{next, report}.ConsumeMetrics(ctx, metrics),
			reportedTraces{next, report}.ConsumeTraces(ctx, traces), reportedProfiles{next, report}.ConsumeProfiles(ctx, profiles),
		}
	}
	full := errors.New("full")
	require.Equal(t, []error{nil, nil, nil, nil}, deliver(consumertest.NewNop()))
	require.Equal(t, []error{full, full, full, full}, deliver(consumertest.NewErr(full)))
	require.Equal(t, []error{nil, nil, nil, nil}, deliver(consumertest.NewNop()))
	for name, want := range map[string][2]int64{
		"log_records": {2, 1}, "metric_points": {4, 2}, "spans": {6, 3}, "profile_samples": {8, 4},
	} {
		for i, outcome := range []string{"accepted", "refused"} {
			metric, err := tt.GetMetric("otelcol_receiver_" + outcome + "_" + name)
			require.NoError(t, err)
			points := metric.Data.(metricdata.Sum[int64]).DataPoints
			require.Len(t, points, 1)
			require.Equal(t, want[i], points[0].Value, metric.Name)
			receiver, _ := points[0].Attributes.Value("receiver")
			require.Equal(t, settings.ID.String(), receiver.AsString())
		}
	}
}
