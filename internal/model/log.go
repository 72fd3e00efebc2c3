// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// Logs are events of one process, or of the host.
type Logs struct {
	// Process is nil for what is the host's.
	Process *Process
	Logs    []Log
	// Release returns the memory of Logs and of the lists of their attributes, not of their texts;
	// nil: it is not reused. The consumer of the logs calls it at most once, when they are not read
	// any more.
	Release func()
	// Bytes is the memory of all of this; 0: it was not counted.
	Bytes uint64
}

// Log is one event.
type Log struct {
	// Event is its name by the telemetry contract, such as ebpf.request.
	Event string
	// Time is when it happened, Observed when it was found out.
	Time, Observed time.Time
	Severity       Severity
	// TraceID and SpanID are those of the span that it belongs to, zero where none is
	// known; Sampled says that this is recorded.
	TraceID [16]byte
	SpanID  [8]byte
	Sampled bool
	// Attributes have no key twice.
	Attributes []Attribute
}

// Severity says how bad an event is.
type Severity uint8

// Severities.
const (
	Info  Severity = iota // as it should be
	Warn                  // not as it should be
	Error                 // what was asked for failed
)
