// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
)

// observationFormat is the attribute format of what is reported of each delivery, where other receivers have that of a protocol.
const observationFormat = "ebpf"

// newReport returns what counts otelcol_receiver_accepted_* and otelcol_receiver_refused_*, as of every receiver: an attempt that the next
// consumer refuses for now counts as refused, and again when it is repeated.
func newReport(settings receiver.Settings) (*receiverhelper.ObsReport, error) {
	return receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{ReceiverID: settings.ID, ReceiverCreateSettings: settings})
}

// deliver has a consumer take a batch of so many items, and reports whether it did. The items were counted before, as the consumer may change them.
func deliver[B any](ctx context.Context, batch B, items int, start func(context.Context) context.Context, consume func(context.Context, B) error,
	end func(ctx context.Context, format string, items int, err error),
) error {
	ctx = start(ctx)
	err := consume(ctx, batch)
	end(ctx, observationFormat, items, err)
	return err
}

// The following are consumers that report what they accept and refuse.

type reportedLogs struct {
	consumer.Logs
	report *receiverhelper.ObsReport
}

func (r reportedLogs) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	return deliver(ctx, logs, logs.LogRecordCount(), r.report.StartLogsOp, r.Logs.ConsumeLogs, r.report.EndLogsOp)
}

type reportedMetrics struct {
	consumer.Metrics
	report *receiverhelper.ObsReport
}

func (r reportedMetrics) ConsumeMetrics(ctx context.Context, metrics pmetric.Metrics) error {
	return deliver(ctx, metrics, metrics.DataPointCount(), r.report.StartMetricsOp, r.Metrics.ConsumeMetrics, r.report.EndMetricsOp)
}

type reportedTraces struct {
	consumer.Traces
	report *receiverhelper.ObsReport
}

func (r reportedTraces) ConsumeTraces(ctx context.Context, traces ptrace.Traces) error {
	return deliver(ctx, traces, traces.SpanCount(), r.report.StartTracesOp, r.Traces.ConsumeTraces, r.report.EndTracesOp)
}

type reportedProfiles struct {
	xconsumer.Profiles
	report *receiverhelper.ObsReport
}

func (r reportedProfiles) ConsumeProfiles(ctx context.Context, profiles pprofile.Profiles) error {
	return deliver(ctx, profiles, profiles.SampleCount(), r.report.StartProfilesOp, r.Profiles.ConsumeProfiles, r.report.EndProfilesOp)
}
