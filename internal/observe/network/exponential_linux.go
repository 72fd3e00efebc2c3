// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"math"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// With exponential histograms the kernel's buckets are those of scale 0, between powers of two of a second: they are only added up, so no
// bucket is ever divided. Values up to the first power are in the zero bucket, whose width OpenTelemetry's data model leaves free
// (ZeroThreshold). The last bucket also has the values above its upper bound, since an exponential histogram has no bucket without a bound.
const (
	// firstPower is the exponent of the first bound: 2^-17 s are 7.6 us.
	firstPower = -17
	powerCount = len(histogram{}.buckets) - 1
)

// powers are the upper bounds of the kernel's buckets in seconds (network_powers of bpf/include/network_series.h).
var powers = func() []float64 {
	list := make([]float64, powerCount)
	for i := range list {
		list[i] = math.Ldexp(1, firstPower+i)
	}
	return list
}()

// toExponential converts a histogram of the kernel's buckets between powers of two to an exponential histogram of scale 0.
func toExponential(h *model.Histogram) {
	of := &model.Exponential{ZeroCount: h.Buckets[0], ZeroThreshold: powers[0], Offset: firstPower}
	h.Exponential, h.Buckets = of, h.Buckets[1:]
	for len(h.Buckets) > 0 && h.Buckets[0] == 0 {
		of.Offset++
		h.Buckets = h.Buckets[1:]
	}
	for len(h.Buckets) > 0 && h.Buckets[len(h.Buckets)-1] == 0 {
		h.Buckets = h.Buckets[:len(h.Buckets)-1]
	}
}
