// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"slices"
	"unsafe"

	"go.opentelemetry.io/collector/consumer"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// maxPendingLogs is how many deliveries are kept for a consumer that refuses them for now: those of
// some 40 seconds, four each second if all requests are exported, and one with each report.
const maxPendingLogs = 180

// logSink delivers logs.
type logSink struct {
	*sink
	next    consumer.Logs
	builder *pdata.LogsBuilder
	off     map[string]bool // names of events that are disabled
}

func newLogSink(next consumer.Logs, off map[string]bool, logger *zap.Logger, version string, maxBytes uint64) *logSink {
	return &logSink{
		sink:    newSink(signalLogs, logger, maxPendingLogs, maxBytes),
		next:    next,
		builder: pdata.NewLogsBuilder(scopeName, version),
		off:     off,
	}
}

// put hands over what has happened.
func (s *logSink) put(logs []*model.Logs) {
	left := false
	for _, of := range logs {
		if len(s.off) > 0 {
			of.Logs = slices.DeleteFunc(of.Logs, func(l model.Log) bool { return s.off[l.Event] })
		}
		left = left || len(of.Logs) > 0
	}
	if !left {
		release(logs)
		return
	}
	chunk := s.queue.maxBytes / chunkShare
	chunks(splitLogs(logs, chunk), bytesOfLogs, chunk, s.putChunk)
}

// putChunk hands over what one delivery takes.
func (s *logSink) putChunk(logs []*model.Logs) {
	d := &delivery{build: func() func() (message, bool) {
		return messages(s.builder.Messages(logs), s.next.ConsumeLogs)
	}, over: func() { release(logs) }}
	for _, of := range logs {
		p := part{process: of.Process, bytes: bytesOfLogs(of), records: uint64(len(of.Logs)), drop: func() { dropLogs(of) }}
		d.bytes += p.bytes
		d.parts = append(d.parts, p)
	}
	s.sink.put(d)
}

// dropLogs forgets logs that are not delivered.
func dropLogs(of *model.Logs) {
	release([]*model.Logs{of})
	of.Logs = nil
}

// splitLogs splits lists that are larger than a chunk, as far as their memory is not given back as a whole.
func splitLogs(logs []*model.Logs, chunk uint64) []*model.Logs {
	var split []*model.Logs
	for _, of := range logs {
		if of.Release != nil || of.Bytes > 0 || bytesOfLogs(of) <= chunk {
			split = append(split, of)
			continue
		}
		chunks(of.Logs, func(l model.Log) uint64 { return bytesOfLog(&l) }, chunk, func(some []model.Log) {
			split = append(split, &model.Logs{Process: of.Process, Logs: some})
		})
	}
	return split
}

// release returns the memory of logs that are not read any more: messages have copies.
func release(logs []*model.Logs) {
	for _, of := range logs {
		if of.Release != nil {
			of.Release()
			of.Logs, of.Release = nil, nil
		}
	}
}

// bytesOfLogs estimates the memory of the logs of a process.
func bytesOfLogs(of *model.Logs) uint64 {
	if of.Bytes > 0 {
		return of.Bytes
	}
	var bytes uint64
	for i := range of.Logs {
		bytes += bytesOfLog(&of.Logs[i])
	}
	return bytes
}

func bytesOfLog(l *model.Log) uint64 {
	return uint64(unsafe.Sizeof(model.Log{})) + attributeBytes(l.Attributes)
}

// attributeBytes estimates the memory of attributes, most keys of which are constants.
func attributeBytes(attributes []model.Attribute) uint64 {
	bytes := uint64(unsafe.Sizeof(model.Attribute{})) * uint64(cap(attributes))
	for i := range attributes {
		bytes += uint64(len(attributes[i].Value.Text))
	}
	return bytes
}
