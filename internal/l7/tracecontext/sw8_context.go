// SPDX-License-Identifier: Apache-2.0

package tracecontext

import (
	"bytes"
	"strconv"
)

// Lengths of the identifiers that SkyWalking's agents make.
const (
	hexUUID    = 32 // 16 bytes without dashes
	dashedUUID = 36
)

// Context is the caller's span with identifiers as OpenTelemetry has them, made of SkyWalking's in the way of the Collector's receiver for
// SkyWalking, so that both name the same trace; false for identifiers of other forms than its agents make.
func (c SkyWalking) Context() (Context, bool) {
	trace, ok := skyWalkingUUID(c.TraceID, 0)
	if len(c.TraceID) <= dashedUUID {
		trace, ok = plainUUID(c.TraceID)
	}
	segment, alsoOK := skyWalkingUUID(c.SegmentID, uint32(c.SpanID))
	if !ok || !alsoOK {
		return Context{}, false
	}
	to := Context{TraceID: trace, Sampling: c.Sampling}
	for i := range to.SpanID {
		to.SpanID[i] = segment[i] ^ segment[i+len(to.SpanID)]
	}
	return to, to.TraceID != [16]byte{} && to.SpanID != [8]byte{}
}

// plainUUID reads a UUID with dashes or without.
func plainUUID(text []byte) (id [16]byte, ok bool) {
	if len(text) == dashedUUID {
		text = bytes.ReplaceAll(text, []byte("-"), nil)
	}
	return id, hexID(id[:], text, true)
}

// skyWalkingUUID reads a UUID, which two numbers may follow: those of the thread and of the time with a counter. They and the extra number
// are put into it, the first byte being the lowest of each.
func skyWalkingUUID(text []byte, extra uint32) (id [16]byte, ok bool) {
	if len(text) < hexUUID || !hexID(id[:], text[:hexUUID], true) {
		return [16]byte{}, false
	}
	mix(id[:4], uint64(extra))
	rest := text[hexUUID:]
	if len(rest) == 0 {
		return id, true
	}
	parts := bytes.Split(rest, []byte("."))
	const numbers = 2
	if len(parts) != 1+numbers || len(parts[0]) > 0 {
		return [16]byte{}, false
	}
	thread, err := strconv.ParseUint(string(parts[1]), 10, 63)
	if err != nil {
		return [16]byte{}, false
	}
	when, err := strconv.ParseUint(string(parts[2]), 10, 63)
	if err != nil {
		return [16]byte{}, false
	}
	mix(id[4:8], thread)
	mix(id[8:], when)
	return id, true
}

// mix puts a number into bytes, the lowest first.
func mix(to []byte, n uint64) {
	for i := range to {
		to[i] ^= byte(n)
		n >>= 8
	}
}
