// SPDX-License-Identifier: Apache-2.0

// Package histogram counts values in exponential buckets, as OpenTelemetry's data model defines them
// (https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram).
package histogram

import (
	"math"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// MaxBuckets is how many buckets a histogram has at most: the default of OpenTelemetry's
	// base2 exponential bucket histogram aggregation.
	MaxBuckets = 160
	// MaxScale is the scale of a histogram with one value. It is the largest that Prometheus takes, whose native histograms
	// would be merged to it otherwise; the relative error of a quantile is 0.14 % at most.
	MaxScale = 8
	// MinScale is the scale at which MaxBuckets cover all positive numbers of 64 bits, subnormal ones included.
	MinScale = -4
)

// Exponential is a histogram of values that are not negative. Bucket i at scale s has the values in (b^i, b^(i+1)] with
// b = 2^(2^-s). When the values span more than MaxBuckets buckets, adjacent buckets are merged in pairs until they fit, each time
// lowering the scale by one. The zero value is an empty histogram.
type Exponential struct {
	// Count is the number of all values, Zero of those that are 0.
	Count, Zero   uint64
	Sum, Min, Max float64

	// scale counts while there are buckets.
	scale int32
	// offset is the index of the first bucket. The first and the last bucket are never empty.
	offset int32
	counts []uint64
}

// Record counts a value. One that is negative or no number counts as 0, an infinite one as the largest number.
func (e *Exponential) Record(v float64) {
	v = min(v, math.MaxFloat64)
	if !(v > 0) {
		v = 0
	}
	if e.Count == 0 {
		e.Min, e.Max = v, v
	}
	e.Count++
	e.Sum += v
	e.Min, e.Max = min(e.Min, v), max(e.Max, v)
	if v == 0 {
		e.Zero++
		return
	}
	if len(e.counts) == 0 {
		e.scale = MaxScale
		e.offset = index(v, MaxScale)
	}
	at := index(v, e.scale)
	if i := int(at - e.offset); i >= 0 && i < len(e.counts) {
		e.counts[i]++
		return
	}
	at >>= e.cover(at, at)
	e.counts[at-e.offset]++
}

// Merge adds what another histogram has counted.
func (e *Exponential) Merge(o *Exponential) {
	if o.Count == 0 {
		return
	}
	if e.Count == 0 {
		*e = *o
		e.counts = slices.Clone(o.counts)
		return
	}
	e.Count += o.Count
	e.Zero += o.Zero
	e.Sum += o.Sum
	e.Min, e.Max = min(e.Min, o.Min), max(e.Max, o.Max)
	if len(o.counts) == 0 {
		return
	}
	if len(e.counts) == 0 {
		e.scale, e.offset, e.counts = o.scale, o.offset, slices.Clone(o.counts)
		return
	}
	if e.scale > o.scale {
		e.lower(e.scale - o.scale)
	}
	shift := o.scale - e.scale
	shift += e.cover(o.offset>>shift, (o.offset+int32(len(o.counts))-1)>>shift)
	for i, n := range o.counts {
		e.counts[(o.offset+int32(i))>>shift-e.offset] += n
	}
}

// Value returns the histogram as it is exported. It does not change with e any more.
func (e *Exponential) Value() *model.Histogram {
	return &model.Histogram{
		Count: e.Count, Sum: e.Sum, Min: e.Min, Max: e.Max, Buckets: slices.Clone(e.counts),
		Exponential: &model.Exponential{Scale: e.scale, Offset: e.offset, ZeroCount: e.Zero},
	}
}

// cover has the buckets reach from first to last, indexes at the present scale, and returns by how much the scale was lowered for that.
func (e *Exponential) cover(first, last int32) (lowered int32) {
	if len(e.counts) > 0 {
		first, last = min(first, e.offset), max(last, e.offset+int32(len(e.counts))-1)
	}
	for last-first >= MaxBuckets {
		first, last = first>>1, last>>1
		lowered++
	}
	e.lower(lowered)
	if len(e.counts) == 0 {
		e.offset = first
	}
	e.extend(int(e.offset-first), int(last-first)+1)
	e.offset = first
	return lowered
}

// extend makes so many buckets in all, of which the present ones begin behind the first before.
func (e *Exponential) extend(before, all int) {
	if before == 0 && all <= cap(e.counts) {
		e.counts = e.counts[:all]
		return
	}
	// Room for as many again: values come in any order.
	counts := make([]uint64, all, min(2*all, MaxBuckets))
	copy(counts[before:], e.counts)
	e.counts = counts
}

// lower lowers the scale: each step merges the buckets 2i and 2i+1 to i.
func (e *Exponential) lower(steps int32) {
	if steps == 0 {
		return
	}
	e.scale -= steps
	if len(e.counts) == 0 {
		e.offset >>= steps
		return
	}
	first := e.offset >> steps
	last := 0
	for i, n := range e.counts {
		to := int((e.offset+int32(i))>>steps - first)
		if to != i {
			e.counts[i] = 0
			e.counts[to] += n
		}
		last = to
	}
	e.offset, e.counts = first, e.counts[:last+1]
}
