// SPDX-License-Identifier: Apache-2.0

package tracecontext

// Sampling is what the caller decided about recording the trace.
type Sampling uint8

// Decisions of a caller.
const (
	SamplingUnknown Sampling = iota // it left the decision to others
	NotSampled
	Sampled
)

// Context is the span that a request comes from.
type Context struct {
	TraceID  [16]byte
	SpanID   [8]byte
	Sampling Sampling
}

// hexID reads hexadecimal digits into an identifier of as many bytes. Upper case is allowed if upper is; all zeros are none.
func hexID(id, digits []byte, upper bool) bool {
	if len(digits) != 2*len(id) {
		return false
	}
	var any byte
	for i := range id {
		high, ok1 := nibble(digits[2*i], upper)
		low, ok2 := nibble(digits[2*i+1], upper)
		if !ok1 || !ok2 {
			return false
		}
		id[i] = high<<4 | low
		any |= id[i]
	}
	return any != 0
}

func nibble(c byte, upper bool) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case upper && 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
