// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

// maxExponentialBuckets bounds a histogram that is added up: its scale is lowered until it has no more buckets.
const maxExponentialBuckets = 320

// exponential has the buckets of an exponential histogram without negative values, as OpenTelemetry's metrics data model defines them:
// counts[i] are values above base^(offset+i) and up to base^(offset+i+1), where base is 2^(2^-scale).
type exponential struct {
	scale int32
	// offset is the index of the first count. It needs more bits than the format's 32 where a scale is lowered.
	offset int64
	counts []int64
	// zero counts the values from 0 to threshold.
	zero      int64
	threshold float64
}

// The scales that OpenTelemetry's SDKs make.
const minScale, maxScale = -10, 20

// newExponential takes the positive buckets of a point. It returns nil where the scale is not one of an SDK.
func newExponential(p pmetric.ExponentialHistogramDataPoint) *exponential {
	if p.Scale() < minScale || p.Scale() > maxScale {
		return nil
	}
	e := &exponential{scale: p.Scale(), offset: int64(p.Positive().Offset()), zero: int64(p.ZeroCount()), threshold: p.ZeroThreshold()}
	for _, n := range p.Positive().BucketCounts().All() {
		e.counts = append(e.counts, int64(n))
	}
	return e.lowered(0)
}

// lowered returns the histogram with its scale lowered by steps, each of which merges two neighbouring buckets, and by as many more as it
// takes to be within the bound.
func (e *exponential) lowered(steps int32) *exponential {
	out := *e
	for ; steps > 0 || len(out.counts) > maxExponentialBuckets; steps-- {
		merged := make([]int64, 0, len(out.counts)/2+1)
		for i, n := range out.counts {
			if i > 0 && (out.offset+int64(i))&1 == 1 {
				merged[len(merged)-1] += n
			} else {
				merged = append(merged, n)
			}
		}
		out.scale, out.offset, out.counts = out.scale-1, out.offset>>1, merged
	}
	return &out
}

// span returns the index of the first count and the one behind the last of both, of which one at least has counts.
func (e *exponential) span(other *exponential) (begin, end int64) {
	begin, end = e.offset, e.offset+int64(len(e.counts))
	if len(other.counts) == 0 {
		return begin, end
	}
	if len(e.counts) == 0 {
		return other.span(e)
	}
	return min(begin, other.offset), max(end, other.offset+int64(len(other.counts)))
}

// combined returns e with sign times the counts of other added, at the lower of both scales, or lower where both together exceed the bound.
// No count falls below 0.
func (e *exponential) combined(other *exponential, sign int64) *exponential {
	scale := min(e.scale, other.scale)
	a, b := e.lowered(e.scale-scale), other.lowered(other.scale-scale)
	begin, end := a.span(b)
	for ; end-begin > maxExponentialBuckets; begin, end = a.span(b) {
		a, b = a.lowered(1), b.lowered(1)
	}
	out := &exponential{
		scale: a.scale, offset: begin, counts: make([]int64, end-begin),
		zero: max(0, a.zero+sign*b.zero), threshold: max(a.threshold, b.threshold),
	}
	for i, n := range a.counts {
		out.counts[a.offset-begin+int64(i)] = n
	}
	for i, n := range b.counts {
		at := &out.counts[b.offset-begin+int64(i)]
		*at = max(0, *at+sign*n)
	}
	return out
}

// bound returns base^index, the lower bound of a bucket.
func (e *exponential) bound(index int64) float64 {
	return math.Exp2(float64(index) * math.Exp2(-float64(e.scale)))
}

// quantile estimates a quantile between lowest and highest, exponentially within its bucket as Prometheus does, and linearly within the zero
// bucket. It reports false where nothing was counted.
func (e *exponential) quantile(q, lowest, highest float64) (float64, bool) {
	all := e.zero
	for _, n := range e.counts {
		all += n
	}
	if all == 0 {
		return 0, false
	}
	rank := q * float64(all)
	within := func(v float64) float64 { return max(lowest, min(v, highest)) }
	if e.zero > 0 && float64(e.zero) >= rank {
		return within(e.threshold * rank / float64(e.zero)), true
	}
	passed := float64(e.zero)
	for i, n := range e.counts {
		if n > 0 && passed+float64(n) >= rank {
			lower, upper := within(e.bound(e.offset+int64(i))), within(e.bound(e.offset+int64(i)+1))
			switch {
			case lower <= 0:
				return upper, true
			case math.IsInf(upper, 1): // no maximum is known
				return lower, true
			}
			return lower * math.Pow(upper/lower, (rank-passed)/float64(n)), true
		}
		passed += float64(n)
	}
	return highest, true
}
