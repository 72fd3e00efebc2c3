// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// times are the indices of histograms in totals: of operations and waits as the BPF programs number them, and of round-trip times.
const (
	operationTimes = 0
	waitTimes      = operationTimes + int(bindings.NetworkNetworkOperationNETWORK_OPERATIONS)
	rttTimes       = waitTimes + int(bindings.NetworkNetworkWaitNETWORK_WAITS)
	allTimes       = rttTimes + 1
)

// totals are the counts of a series, or of several.
type totals struct {
	received, sent, retransmits, resetsReceived, resetsSent uint64
	// times are nil if nothing was counted: few of them are used in most series.
	times           [allTimes]*histogram
	drops, failures map[uint16]uint64
}

// timesOf returns a record's histograms in the order of totals.
func timesOf(r *record) (times [allTimes]*recorded) {
	for i := range r.Operations {
		times[operationTimes+i] = &r.Operations[i]
	}
	for i := range r.Waits {
		times[waitTimes+i] = &r.Waits[i]
	}
	times[rttTimes] = &r.Rtt
	return times
}

// addRecord adds the counts of another shard.
func addRecord(to, r *record) {
	to.Received += r.Received
	to.Sent += r.Sent
	to.Retransmits += r.Retransmits
	to.ResetsReceived += r.ResetsReceived
	to.ResetsSent += r.ResetsSent
	times := timesOf(to)
	for i, from := range timesOf(r) {
		times[i].Sum += from.Sum
		times[i].Most = max(times[i].Most, from.Most)
		times[i].Least = max(times[i].Least, from.Least) // its bits are inverted
		for bucket, n := range from.Buckets {
			times[i].Buckets[bucket] += n
		}
	}
}

// take sets the totals to a record, which is the sum of all shards; they were its totals at the last report.
func (t *totals) take(r *record) {
	t.received, t.sent, t.retransmits = r.Received, r.Sent, r.Retransmits
	t.resetsReceived, t.resetsSent = r.ResetsReceived, r.ResetsSent
	for i, from := range timesOf(r) {
		if t.times[i] == nil && from.Buckets == (recorded{}).Buckets {
			continue
		}
		to := t.at(i)
		to.sum, to.most, to.least = from.Sum, from.Most, from.Least
		for bucket, n := range from.Buckets {
			to.buckets[bucket] += uint64(n - uint32(to.buckets[bucket])) // it may have wrapped
		}
	}
}

// same reports whether the counts of a record are in the totals already.
func (t *totals) same(r *record) bool {
	if t.received != r.Received || t.sent != r.Sent || t.retransmits != r.Retransmits ||
		t.resetsReceived != r.ResetsReceived || t.resetsSent != r.ResetsSent {
		return false
	}
	for i, from := range timesOf(r) {
		for bucket, n := range from.Buckets {
			if t.times[i] == nil && n != 0 || t.times[i] != nil && uint32(t.times[i].buckets[bucket]) != n {
				return false
			}
		}
	}
	return true
}

// at returns the histogram with an index, and allocates it if necessary.
func (t *totals) at(i int) *histogram {
	if t.times[i] == nil {
		t.times[i] = &histogram{}
	}
	return t.times[i]
}

// add adds the counts of o.
func (t *totals) add(o *totals) {
	t.received += o.received
	t.sent += o.sent
	t.retransmits += o.retransmits
	t.resetsReceived += o.resetsReceived
	t.resetsSent += o.resetsSent
	for i, from := range o.times {
		if from != nil {
			t.at(i).add(from)
		}
	}
	t.drops = addCounts(t.drops, o.drops)
	t.failures = addCounts(t.failures, o.failures)
}

// copy returns an independent copy.
func (t *totals) copy() *totals {
	other := &totals{}
	other.add(t)
	return other
}

// subtract subtracts earlier counts. Minimum and maximum stay: they are exported within the buckets that have counted.
func (t *totals) subtract(o *totals) {
	t.received -= o.received
	t.sent -= o.sent
	t.retransmits -= o.retransmits
	t.resetsReceived -= o.resetsReceived
	t.resetsSent -= o.resetsSent
	for i, what := range o.times {
		if what != nil {
			t.times[i].subtract(what)
		}
	}
	t.drops = subtractCounts(t.drops, o.drops)
	t.failures = subtractCounts(t.failures, o.failures)
}

// calls returns the number of operations.
func (t *totals) calls() uint64 {
	var n uint64
	for _, h := range t.times[operationTimes:waitTimes] {
		if h != nil {
			n += h.count()
		}
	}
	return n
}

// bytes returns the memory of the totals without the struct itself, and without drops and failures, which are few.
func (t *totals) bytes() uint64 {
	var n uint64
	for _, h := range t.times {
		if h != nil {
			n += uint64(unsafe.Sizeof(*h))
		}
	}
	return n
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

// subtractCounts returns the difference of counts; neither is changed.
func subtractCounts(from, what map[uint16]uint64) map[uint16]uint64 {
	left := map[uint16]uint64{}
	for code, n := range from {
		if n > what[code] {
			left[code] = n - what[code]
		}
	}
	return left
}

// recorded is a histogram of the kernel, whose buckets wrap.
type recorded = bindings.NetworkNetworkHistogram

// histogram is one as it is exported; times are in ns.
type histogram struct {
	sum, most uint64
	least     uint64 // all bits inverted
	buckets   [len(recorded{}.Buckets)]uint64
}

func (h *histogram) add(o *histogram) {
	h.sum += o.sum
	h.most = max(h.most, o.most)
	h.least = max(h.least, o.least)
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

func (h *histogram) subtract(o *histogram) {
	h.sum -= o.sum
	for i, n := range o.buckets {
		h.buckets[i] -= n
	}
}

func (h *histogram) count() uint64 {
	var sum uint64
	for _, n := range h.buckets {
		sum += n
	}
	return sum
}

// value returns a histogram in seconds; nil if it is empty. The count is the sum of the buckets: they and the sum are read while the kernel
// adds. So are the minimum and the maximum, which CPUs may overwrite for each other in addition: they are exported within the buckets that
// have counted. Bounds are the kernel's.
func value(h *histogram, bounds []float64) *model.Histogram {
	if h == nil {
		return nil
	}
	counted := h.count()
	if counted == 0 {
		return nil
	}
	v := &model.Histogram{Count: counted, Sum: float64(h.sum) / 1e9, Buckets: make([]uint64, len(bounds)+1)}
	copy(v.Buckets, h.buckets[:])
	first := slices.IndexFunc(v.Buckets, func(n uint64) bool { return n > 0 })
	last := first
	for i, n := range v.Buckets {
		if n > 0 {
			last = i
		}
	}
	v.Min, v.Max = within(bounds, first, float64(^h.least)/1e9), within(bounds, last, float64(h.most)/1e9)
	return v
}

// within limits seconds to a bucket; the last one has no upper bound.
func within(bounds []float64, bucket int, seconds float64) float64 {
	if bucket > 0 {
		seconds = max(seconds, bounds[bucket-1])
	}
	if bucket < len(bounds) {
		seconds = min(seconds, bounds[bucket])
	}
	return seconds
}
