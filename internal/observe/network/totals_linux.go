// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"maps"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// totals are what was counted of a series, or of several.
type totals struct {
	record
	drops, failures map[uint16]uint64
}

// add adds what others have counted.
func (t *totals) add(o *totals) {
	t.addRecord(&o.record)
	t.drops = addCounts(t.drops, o.drops)
	t.failures = addCounts(t.failures, o.failures)
}

func (t *totals) addRecord(r *record) {
	t.Received += r.Received
	t.Sent += r.Sent
	t.Retransmits += r.Retransmits
	t.ResetsReceived += r.ResetsReceived
	t.ResetsSent += r.ResetsSent
	for i := range r.Operations {
		addHistogram(&t.Operations[i], &r.Operations[i])
	}
	for i := range r.Waits {
		addHistogram(&t.Waits[i], &r.Waits[i])
	}
	addHistogram(&t.Rtt, &r.Rtt)
}

// subtract takes away what was counted earlier. The least and the most stay: they are
// told within the buckets that have counted.
func (t *totals) subtract(o *totals) {
	t.Received -= o.Received
	t.Sent -= o.Sent
	t.Retransmits -= o.Retransmits
	t.ResetsReceived -= o.ResetsReceived
	t.ResetsSent -= o.ResetsSent
	for i := range t.Operations {
		subtractHistogram(&t.Operations[i], &o.Operations[i])
	}
	for i := range t.Waits {
		subtractHistogram(&t.Waits[i], &o.Waits[i])
	}
	subtractHistogram(&t.Rtt, &o.Rtt)
	t.drops = subtractCounts(t.drops, o.drops)
	t.failures = subtractCounts(t.failures, o.failures)
}

// calls is the number of operations.
func (t *totals) calls() uint64 {
	var n uint64
	for i := range t.Operations {
		n += count(&t.Operations[i])
	}
	return n
}

// same tells whether nothing was counted since before.
func (t *totals) same(before *totals) bool {
	return t.record == before.record && maps.Equal(t.drops, before.drops) && maps.Equal(t.failures, before.failures)
}

func addCounts(to, from map[uint16]uint64) map[uint16]uint64 {
	if len(from) == 0 {
		return to
	}
	if to == nil {
		return maps.Clone(from)
	}
	for code, n := range from {
		to[code] += n
	}
	return to
}

// subtractCounts returns what is left of counts; neither is changed.
func subtractCounts(from, what map[uint16]uint64) map[uint16]uint64 {
	left := map[uint16]uint64{}
	for code, n := range from {
		if n > what[code] {
			left[code] = n - what[code]
		}
	}
	return left
}

type histogram = bindings.NetworkNetworkHistogram

func addHistogram(to, from *histogram) {
	to.Sum += from.Sum
	to.Most = max(to.Most, from.Most)
	to.Least = max(to.Least, from.Least) // its bits are inverted
	for i, n := range from.Buckets {
		to.Buckets[i] += n
	}
}

func subtractHistogram(from, what *histogram) {
	from.Sum -= what.Sum
	for i, n := range what.Buckets {
		from.Buckets[i] -= n
	}
}

func count(h *histogram) uint64 {
	var sum uint64
	for _, n := range h.Buckets {
		sum += n
	}
	return sum
}

// value makes seconds of nanoseconds; nil while nothing was counted. The buckets make
// the count: they and the sum are read while the kernel adds. So are the least and the
// most, which CPUs may write over each other besides: they are told within the buckets
// that have counted.
func value(h *histogram) *model.Histogram {
	counted := count(h)
	if counted == 0 {
		return nil
	}
	v := &model.Histogram{Count: counted, Sum: float64(h.Sum) / 1e9, Buckets: make([]uint64, len(bounds)+1)}
	copy(v.Buckets, h.Buckets[:])
	first := slices.IndexFunc(v.Buckets, func(n uint64) bool { return n > 0 })
	last := first
	for i, n := range v.Buckets {
		if n > 0 {
			last = i
		}
	}
	v.Min, v.Max = within(first, float64(^h.Least)/1e9), within(last, float64(h.Most)/1e9)
	return v
}

// within takes seconds into a bucket; the last one has no upper bound.
func within(bucket int, seconds float64) float64 {
	if bucket > 0 {
		seconds = max(seconds, bounds[bucket-1])
	}
	if bucket < len(bounds) {
		seconds = min(seconds, bounds[bucket])
	}
	return seconds
}
