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

// maxPendingLogs is how many deliveries are kept for a consumer that refuses them for now:
// those of some 40 seconds, four each second where all requests are told, and one with each
// report.
const maxPendingLogs = 180

// logSink delivers logs.
type logSink struct {
	*sink
	next    consumer.Logs
	builder *pdata.LogsBuilder
	off     map[string]bool // names of events that nobody wants
}

func newLogSink(next consumer.Logs, off map[string]bool, logger *zap.Logger, version string, maxBytes uint64) *logSink {
	return &logSink{
		sink:    newSink("logs", logger, maxPendingLogs, maxBytes),
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
	s.sink.put(&delivery{bytes: logBytes(logs), build: func() []message {
		return messages(s.builder.Batches(logs), s.next.ConsumeLogs)
	}, over: func() { release(logs) }})
}

// release gives back the memory of logs that nobody looks at any more: messages have copies.
func release(logs []*model.Logs) {
	for _, of := range logs {
		if of.Release != nil {
			of.Release()
			of.Logs, of.Release = nil, nil
		}
	}
}

// logBytes estimates the memory of logs.
func logBytes(logs []*model.Logs) uint64 {
	const log = uint64(unsafe.Sizeof(model.Log{}))
	var bytes uint64
	for _, of := range logs {
		if bytes += of.Bytes; of.Bytes > 0 {
			continue
		}
		for i := range of.Logs {
			bytes += log + attributeBytes(of.Logs[i].Attributes)
		}
	}
	return bytes
}

// attributeBytes estimates the memory of attributes, most keys of which are constants.
func attributeBytes(attributes []model.Attribute) uint64 {
	bytes := uint64(unsafe.Sizeof(model.Attribute{})) * uint64(cap(attributes))
	for i := range attributes {
		bytes += uint64(len(attributes[i].Value.Text))
	}
	return bytes
}
