// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// point is one cumulative point of a series, or the difference of two.
type point struct {
	start, time time.Time
	// count is a histogram's count, or the value of a sum.
	count int64
	sum   float64
	// bounds and buckets are those of an explicit histogram, exponential those of an exponential one, lowest and highest the
	// extreme values since the series began.
	bounds          []float64
	buckets         []int64
	exponential     *exponential
	lowest, highest float64
}

// series remembers the last point of a series.
type series struct{ last point }

// identity is the name of a series: metric, resource and attributes.
func identity(metric string, resource, attributes pcommon.Map) string {
	var b strings.Builder
	b.WriteString(metric)
	for _, m := range []pcommon.Map{resource, attributes} {
		values := map[string]string{}
		for k, v := range m.All() {
			values[k] = v.AsString()
		}
		b.WriteByte(0)
		for _, k := range slices.Sorted(maps.Keys(values)) {
			b.WriteString(k)
			b.WriteByte(1)
			b.WriteString(values[k])
			b.WriteByte(2)
		}
	}
	return b.String()
}

// advance takes the next point of a series and returns what was counted since its last one. It reports false where that
// is not known: the series is new and began before the observation.
func (o *Overview) advance(id string, p point) (point, bool) {
	if p.time.After(o.latest) {
		o.latest = p.time
	}
	s, known := o.series[id]
	if !known {
		if len(o.series) >= maxSeries {
			o.Excess++
			return point{}, false
		}
		s = &series{}
		o.series[id] = s
	}
	before := s.last
	s.last = p
	switch {
	case !known && p.start.Before(o.since):
		return point{}, false
	case !known:
		o.noteStart(p.start)
		return p, true
	case !p.start.Equal(before.start) || p.count < before.count || !slices.Equal(p.bounds, before.bounds):
		return p, true // the series began anew
	}
	o.noteStart(before.time)
	difference := point{start: before.time, time: p.time, count: p.count - before.count, sum: p.sum - before.sum, bounds: p.bounds, lowest: p.lowest, highest: p.highest}
	for i := range p.buckets {
		difference.buckets = append(difference.buckets, max(0, p.buckets[i]-before.buckets[i]))
	}
	if p.exponential != nil && before.exponential != nil {
		difference.exponential = p.exponential.combined(before.exponential, -1)
	}
	return difference, true
}

// fromHistogram is one whose buckets fit its bounds, or else none.
func fromHistogram(p pmetric.HistogramDataPoint) point {
	out := point{start: p.StartTimestamp().AsTime(), time: p.Timestamp().AsTime(), count: int64(p.Count()), sum: p.Sum(), highest: math.Inf(1)}
	if p.HasMax() {
		out.highest = p.Max()
	}
	if p.HasMin() {
		out.lowest = p.Min()
	}
	if p.BucketCounts().Len() != p.ExplicitBounds().Len()+1 {
		return out
	}
	out.bounds = p.ExplicitBounds().AsRaw()
	for _, n := range p.BucketCounts().All() {
		out.buckets = append(out.buckets, int64(n))
	}
	return out
}

// fromExponential is the point of an exponential histogram.
func fromExponential(p pmetric.ExponentialHistogramDataPoint) point {
	out := point{start: p.StartTimestamp().AsTime(), time: p.Timestamp().AsTime(), count: int64(p.Count()), sum: p.Sum(), highest: math.Inf(1)}
	if p.HasMax() {
		out.highest = p.Max()
	}
	if p.HasMin() {
		out.lowest = p.Min()
	}
	out.exponential = newExponential(p)
	return out
}

// slots are the differences within the window, oldest first.
type slots []point

// add appends a difference.
func (s *slots) add(p point) { *s = append(*s, p) }

// prune drops what ended before the window.
func (s *slots) prune(begin time.Time) {
	*s = slices.DeleteFunc(*s, func(p point) bool { return !p.time.After(begin) })
}

// total is the sum of all.
func (s slots) total() (sum point) {
	sum.lowest = math.Inf(1)
	for _, p := range s {
		sum.count += p.count
		sum.sum += p.sum
		sum.lowest, sum.highest = min(sum.lowest, p.lowest), max(sum.highest, p.highest)
		switch {
		case p.exponential != nil && sum.exponential != nil:
			sum.exponential = sum.exponential.combined(p.exponential, 1)
		case p.exponential != nil:
			sum.exponential = p.exponential
		case p.buckets == nil:
		case sum.buckets == nil:
			sum.bounds, sum.buckets = p.bounds, slices.Clone(p.buckets)
		case slices.Equal(sum.bounds, p.bounds):
			for b := range p.buckets {
				sum.buckets[b] += p.buckets[b]
			}
		}
	}
	return sum
}

// quantile estimates a quantile by linear interpolation within its bucket, as Prometheus does, but between the lowest and
// the highest value where these lie in the bucket. It reports false for a histogram without buckets or values.
func (p point) quantile(q float64) (float64, bool) {
	if p.exponential != nil {
		return p.exponential.quantile(q, p.lowest, p.highest)
	}
	var all int64
	for _, n := range p.buckets {
		all += n
	}
	if all == 0 {
		return 0, false
	}
	rank, passed, lower := q*float64(all), 0.0, 0.0
	for i, n := range p.buckets {
		upper := p.highest
		if i < len(p.bounds) {
			upper = min(p.highest, p.bounds[i])
		}
		if n > 0 && passed+float64(n) >= rank {
			lower = min(max(lower, p.lowest), upper)
			if math.IsInf(upper, 1) { // the last bucket, and no maximum is known
				return lower, true
			}
			return lower + (upper-lower)*(rank-passed)/float64(n), true
		}
		passed += float64(n)
		lower = upper
	}
	return lower, true
}
