// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// Logs are events of one process, or of the host.
type Logs struct {
	// Process is nil for what is the host's.
	Process *Process
	Logs    []Log
	// Release takes back the memory of Logs and of the lists of their attributes, not of their
	// texts; nil where that is not asked for. It is called once at most, by who was given the
	// logs, when nobody looks at them any more.
	Release func()
	// Bytes is the memory of all of this, 0 where nobody has counted it.
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
