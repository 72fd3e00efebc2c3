// SPDX-License-Identifier: Apache-2.0

package tracecontext

// Fields are the names of the fields that carry a context, in the order in which [Of] takes their values.
func Fields() []string {
	return []string{"traceparent", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "x-b3-flags", "sw8"}
}

// Of reads the values of [Fields], nil where a field was not there. Of several contexts the first counts, in this order: W3C, B3 in one
// field, B3 in several, SkyWalking.
func Of(values [][]byte) (c Context, ok bool) {
	const w3c, b3, b3Trace, b3Span, b3Sampled, b3Flags, sw8 = 0, 1, 2, 3, 4, 5, 6
	if c, ok = W3C(values[w3c]); ok {
		return c, true
	}
	if c, ok = B3(values[b3]); ok {
		return c, true
	}
	if c, ok = B3Multi(values[b3Trace], values[b3Span], values[b3Sampled], values[b3Flags]); ok {
		return c, true
	}
	if values[sw8] == nil {
		return Context{}, false
	}
	if s, is := SW8(values[sw8]); is {
		return s.Context()
	}
	return Context{}, false
}
