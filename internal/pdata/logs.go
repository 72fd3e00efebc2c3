// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// LogsBuilder turns model logs into OTLP logs. It is reused from interval to interval
// and not safe for concurrent use. It keeps no model value after a method has returned.
type LogsBuilder struct {
	from instrumentation

	out plog.Logs
	// size is an upper bound of the message's bytes in protobuf.
	size int
	// scopes has the one scope of each process's resource.
	scopes map[*model.Process]plog.ScopeLogs
	// last is the process of the log before, records where that went; not yet in an empty message.
	last    *model.Process
	records plog.LogRecordSlice
	begun   bool
	forms   forms
	body    []byte // of the record before
}

var _ eventBuilder[model.Log, plog.Logs] = (*LogsBuilder)(nil)

// NewLogsBuilder returns a builder whose logs come from the named instrumentation
// scope.
func NewLogsBuilder(scopeName, scopeVersion string) *LogsBuilder {
	return &LogsBuilder{from: instrumentation{scopeName, scopeVersion}, scopes: map[*model.Process]plog.ScopeLogs{}}
}

// Batches puts the logs into as many messages as it takes to have about
// [MaxBatchBytes] in each. A message holds at least one log, even when that exceeds
// the limit.
func (b *LogsBuilder) Batches(in []*model.Logs) []plog.Logs { return b.batches(in, MaxBatchBytes) }

func (b *LogsBuilder) batches(in []*model.Logs, maxBytes int) []plog.Logs {
	return collect(b.messages(in, maxBytes))
}

// Messages returns a function that builds the messages of [LogsBuilder.Batches] one by one, so that no more than one need be in memory. It returns false
// after the last one.
func (b *LogsBuilder) Messages(in []*model.Logs) func() (plog.Logs, bool) {
	return b.messages(in, MaxBatchBytes)
}

func (b *LogsBuilder) messages(in []*model.Logs, maxBytes int) func() (plog.Logs, bool) {
	return batch(b, in, func(of *model.Logs) events[model.Log] { return events[model.Log]{of.Process, of.Logs} }, maxBytes)
}

func (b *LogsBuilder) begin() { b.out, b.size = plog.NewLogs(), 0 }

func (b *LogsBuilder) bytes() int { return b.size }

// end returns the message and forgets it.
func (b *LogsBuilder) end() plog.Logs {
	out := b.out
	b.out = plog.Logs{}
	clear(b.scopes)
	b.last, b.records, b.begun = nil, plog.LogRecordSlice{}, false
	b.forms = forms{} // what is fixed in the next message may be something else
	return out
}

// severities are what model severities are in OTLP, with the names that its data model
// gives them.
var severities = [...]struct {
	number plog.SeverityNumber
	text   string
}{
	model.Info:  {plog.SeverityNumberInfo, "INFO"},
	model.Warn:  {plog.SeverityNumberWarn, "WARN"},
	model.Error: {plog.SeverityNumberError, "ERROR"},
}

// sizeLog is an upper bound of a log record's bytes without its name, severity and
// attributes: two times, flags, severity and the ids of trace and span.
const sizeLog = sizeHeader + 3*sizeFixed + sizeNumber + (2 + 16) + (2 + 8)

func (b *LogsBuilder) add(process *model.Process, l *model.Log) {
	if !b.begun || b.last != process {
		b.last, b.records, b.begun = process, b.scope(process).LogRecords(), true
	}
	record := b.records.AppendEmpty()
	record.SetEventName(l.Event)
	record.SetTimestamp(timestamp(l.Time))
	record.SetObservedTimestamp(timestamp(l.Observed))
	severity := severities[l.Severity]
	record.SetSeverityNumber(severity.number)
	record.SetSeverityText(severity.text)
	record.SetTraceID(l.TraceID)
	record.SetSpanID(l.SpanID)
	record.SetFlags(plog.DefaultLogRecordFlags.WithIsSampled(l.Sampled))
	var body string
	body, b.body = bodyOf(l, b.body)
	record.Body().SetStr(body)
	b.size += sizeLog + sizeHeader + sizeString(len(body)) + sizeString(len(l.Event)) + sizeString(len(severity.text)) + b.forms.put(record.Attributes(), l.Attributes)
}

// scope returns where the logs of a process go, in a resource of its own.
func (b *LogsBuilder) scope(process *model.Process) plog.ScopeLogs {
	if scope, ok := b.scopes[process]; ok {
		return scope
	}
	resource := b.out.ResourceLogs().AppendEmpty()
	scope := resource.ScopeLogs().AppendEmpty()
	b.scopes[process] = scope
	b.size += b.from.put(resource, scope, process)
	return scope
}
