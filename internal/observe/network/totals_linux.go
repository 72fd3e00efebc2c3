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

// times are the places of histograms in totals: of operations and waits as the programs number them, and of round-trip times.
const (
	operationTimes = 0
	waitTimes      = operationTimes + int(bindings.NetworkNetworkOperationNETWORK_OPERATIONS)
	rttTimes       = waitTimes + int(bindings.NetworkNetworkWaitNETWORK_WAITS)
	allTimes       = rttTimes + 1
)

// totals are what was counted of a series, or of several.
type totals struct {
	received, sent, retransmits, resetsReceived, resetsSent uint64
	// times are nil where nothing was counted: of most series few are.
	times           [allTimes]*histogram
	drops, failures map[uint16]uint64
}

// timesOf are a record's histograms in the order of totals.
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

// addRecord adds what another shard has recorded.
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

// take makes the totals those of what was recorded, all shards together, of which they were the totals at the last report.
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
			to.buckets[bucket] += uint64(n - uint32(to.buckets[bucket])) // it may have gone round
		}
	}
}

// same tells whether what was recorded is in the totals already.
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

// at is the histogram in a place.
func (t *totals) at(i int) *histogram {
	if t.times[i] == nil {
		t.times[i] = &histogram{}
	}
	return t.times[i]
}

// add adds what others have counted.
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

// copy returns totals that do not change with these.
func (t *totals) copy() *totals {
	other := &totals{}
	other.add(t)
	return other
}

// subtract takes away what was counted earlier. The least and the most stay: they are
// told within the buckets that have counted.
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

// calls is the number of operations.
func (t *totals) calls() uint64 {
	var n uint64
	for _, h := range t.times[operationTimes:waitTimes] {
		if h != nil {
			n += h.count()
		}
	}
	return n
}

// bytes is the memory that they hold beside themselves, but for drops and failures, which are few.
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

// recorded is a histogram as the kernel has it: its buckets go round.
type recorded = bindings.NetworkNetworkHistogram

// histogram is one as it is told; times are in ns.
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

// value makes seconds of nanoseconds; nil while nothing was counted. The buckets make
// the count: they and the sum are read while the kernel adds. So are the least and the
// most, which CPUs may write over each other besides: they are told within the buckets
// that have counted.
func value(h *histogram) *model.Histogram {
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
	v.Min, v.Max = within(first, float64(^h.least)/1e9), within(last, float64(h.most)/1e9)
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
