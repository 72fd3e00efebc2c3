// SPDX-License-Identifier: Apache-2.0

package tracecontext

// W3C reads the value of traceparent by W3C Trace Context, level 1: https://www.w3.org/TR/trace-context-1/#traceparent-header.
// Versions above 00 are read as far as 00 defines them, as section 3.2.2 asks; version ff is invalid.
func W3C(traceparent []byte) (c Context, ok bool) {
	const (
		traceAt, spanAt, flagsAt = 3, 36, 53
		size                     = 55
		sampled                  = 1
	)
	v := traceparent
	if len(v) < size || v[traceAt-1] != '-' || v[spanAt-1] != '-' || v[flagsAt-1] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	if !hexByte(&version, v[:2]) || !hexByte(&flags, v[flagsAt:size]) || !sizeFits(version[0], v[size:]) {
		return Context{}, false
	}
	if !hexID(c.TraceID[:], v[traceAt:spanAt-1], false) || !hexID(c.SpanID[:], v[spanAt:flagsAt-1], false) {
		return Context{}, false
	}
	c.Sampling = NotSampled
	if flags[0]&sampled != 0 {
		c.Sampling = Sampled
	}
	return c, true
}

// hexByte reads two lower-case digits; zero is a value.
func hexByte(to *[1]byte, digits []byte) bool {
	return hexID(to[:], digits, false) || string(digits) == "00"
}

// sizeFits reports whether what follows the flags is allowed in the version.
func sizeFits(version byte, rest []byte) bool {
	const invalid = 0xff
	switch version {
	case 0:
		return len(rest) == 0
	case invalid:
		return false
	}
	return len(rest) == 0 || rest[0] == '-'
}
