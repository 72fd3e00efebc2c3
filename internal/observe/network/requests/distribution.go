// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/histogram"
)

// distribution is a histogram that is being filled.
type distribution struct {
	// exponential is used in place of the fields below; nil: explicit bounds.
	exponential   *histogram.Exponential
	buckets       []uint64
	count         uint64
	sum, min, max float64
}

// add counts a value; upper bounds are inclusive.
func (d *distribution) add(bounds []float64, v float64) {
	if d.exponential != nil {
		d.exponential.Record(v)
		return
	}
	if d.buckets == nil {
		d.buckets = make([]uint64, len(bounds)+1)
		d.min, d.max = v, v
	}
	d.buckets[sort.SearchFloat64s(bounds, v)]++
	d.count++
	d.sum += v
	d.min, d.max = min(d.min, v), max(d.max, v)
}

// merge adds the counts of another histogram with the same bounds. Both are exponential, or neither.
func (d *distribution) merge(o *distribution) {
	if d.exponential != nil {
		d.exponential.Merge(o.exponential)
		return
	}
	if o.count == 0 {
		return
	}
	if d.count == 0 {
		*d = *o
		return
	}
	for i, n := range o.buckets {
		d.buckets[i] += n
	}
	d.count += o.count
	d.sum += o.sum
	d.min, d.max = min(d.min, o.min), max(d.max, o.max)
}

// point adds the histogram to the points of its metric, if it has counted.
func (d *distribution) point(points map[*model.Descriptor][]model.Point, descriptor *model.Descriptor, s *series) {
	if d.counted() == 0 {
		return
	}
	points[descriptor] = append(points[descriptor], model.Point{Attributes: s.attributes, Start: s.start, Histogram: d.value()})
}

// counted returns the number of values.
func (d *distribution) counted() uint64 {
	if d.exponential != nil {
		return d.exponential.Count
	}
	return d.count
}

// value returns the histogram for export.
func (d *distribution) value() *model.Histogram {
	if d.exponential != nil {
		return d.exponential.Value()
	}
	return &model.Histogram{Count: d.count, Sum: d.sum, Min: d.min, Max: d.max, Buckets: append([]uint64(nil), d.buckets...)}
}
