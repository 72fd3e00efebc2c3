// SPDX-License-Identifier: Apache-2.0

package histogram

import "math"

const (
	// octave is how many buckets there are at MaxScale between two powers of two.
	octave = 1 << MaxScale
	// significandBits are those of a 64-bit number (IEEE 754).
	significandBits = 52
	significand     = 1<<significandBits - 1
	exponentBias    = 1023
)

var (
	// bounds are the significands of the bounds of the buckets of an octave at MaxScale: 2^(i/octave).
	bounds [octave + 1]uint64
	// nearest is the bucket of the smallest significand with the same leading bits. Others with them are at most two buckets above it.
	nearest [octave]uint16
)

func init() {
	for i := range octave {
		bounds[i] = math.Float64bits(math.Exp2(float64(i)/octave)) & significand
	}
	bounds[octave] = 1 << significandBits
	at := 0
	for i := range nearest {
		for bounds[at+1] < uint64(i)<<(significandBits-MaxScale) {
			at++
		}
		nearest[i] = uint16(at)
	}
}

// index is that of the bucket of a positive value at a scale: ceil(log_b(v)) - 1. OpenTelemetry's data model gives several ways to find it; this is
// "Positive scales: use a lookup table", which takes a third of the time of a logarithm. Powers of two, which are bounds of buckets at all scales, are exact.
func index(v float64, scale int32) int32 {
	bits := math.Float64bits(v)
	exponent := int32(bits >> significandBits)
	if exponent == 0 { // subnormal: it has fewer significant bits
		bits = math.Float64bits(v * (1 << significandBits))
		exponent = int32(bits>>significandBits) - significandBits
	}
	of := bits & significand
	at := int32(nearest[of>>(significandBits-MaxScale)])
	for of > bounds[at+1] {
		at++
	}
	if of == 0 {
		at = -1 // the upper bound of the bucket below
	}
	return ((exponent-exponentBias)<<MaxScale + at) >> (MaxScale - scale)
}
