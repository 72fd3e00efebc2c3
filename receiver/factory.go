// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// NewFactory returns the factory of the receiver.
func NewFactory() receiver.Factory {
	shared := &registry{receivers: map[*Config]*ebpfReceiver{}}
	return xreceiver.NewFactory(metadata.Type, createDefaultConfig,
		xreceiver.WithProfiles(shared.createProfiles, metadata.ProfilesStability),
		xreceiver.WithMetrics(shared.createMetrics, metadata.MetricsStability),
		xreceiver.WithLogs(shared.createLogs, metadata.LogsStability),
		xreceiver.WithTraces(shared.createTraces, metadata.TracesStability),
	)
}

func (r *registry) createProfiles(_ context.Context, set receiver.Settings, cfg component.Config, next xconsumer.Profiles) (xreceiver.Profiles, error) {
	shared := r.of(set, cfg.(*Config))
	shared.profiles = next
	return shared, nil
}

func (r *registry) createMetrics(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	shared := r.of(set, cfg.(*Config))
	shared.metrics = next
	return shared, nil
}

func (r *registry) createLogs(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
	shared := r.of(set, cfg.(*Config))
	shared.logs = next
	return shared, nil
}

func (r *registry) createTraces(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
	shared := r.of(set, cfg.(*Config))
	shared.traces = next
	return shared, nil
}
