// SPDX-License-Identifier: Apache-2.0

package tracecontext

import "bytes"

// B3 reads the value of the single field b3: https://github.com/openzipkin/b3-propagation#single-header. A value that only denies or
// allows sampling carries no context.
func B3(b3 []byte) (c Context, ok bool) {
	var parts [4][]byte
	n := 0
	for rest, more := b3, true; more; n++ {
		if n == len(parts) {
			return Context{}, false
		}
		parts[n], rest, more = bytes.Cut(rest, []byte("-"))
	}
	const least = 2
	if n < least || n == len(parts) && !isSpan(parts[3]) {
		return Context{}, false
	}
	var sampled, flags []byte
	if n > least {
		sampled = parts[2]
		if len(sampled) == 0 {
			return Context{}, false
		}
		if string(sampled) == "d" {
			sampled, flags = nil, []byte("1")
		}
	}
	return b3Context(parts[0], parts[1], sampled, flags)
}

// B3Multi reads the values of X-B3-TraceId, X-B3-SpanId, X-B3-Sampled and X-B3-Flags, the last two of which may be nil:
// https://github.com/openzipkin/b3-propagation#multiple-headers.
func B3Multi(traceID, spanID, sampled, flags []byte) (Context, bool) {
	return b3Context(traceID, spanID, sampled, flags)
}

func b3Context(traceID, spanID, sampled, flags []byte) (c Context, ok bool) {
	const shortTrace = 8
	trace := c.TraceID[:]
	if len(traceID) == 2*shortTrace {
		trace = c.TraceID[shortTrace:]
	}
	if !hexID(trace, traceID, true) || !hexID(c.SpanID[:], spanID, true) {
		return Context{}, false
	}
	if c.Sampling, ok = b3Sampling(sampled, flags); !ok {
		return Context{}, false
	}
	return c, true
}

// b3Sampling reads the decision. Debug, a flag of 1, says that it is sampled; true and false are of old tracers.
func b3Sampling(sampled, flags []byte) (Sampling, bool) {
	if string(flags) == "1" {
		return Sampled, true
	}
	switch string(sampled) {
	case "":
		return SamplingUnknown, true
	case "1", "true":
		return Sampled, true
	case "0", "false":
		return NotSampled, true
	}
	return SamplingUnknown, false
}

func isSpan(digits []byte) bool {
	var span [8]byte
	return hexID(span[:], digits, true)
}
