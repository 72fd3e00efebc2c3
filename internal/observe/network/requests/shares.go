// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/histogram"
)

// Series are shared among processes by max-min fairness. While there are free ones any process takes them; afterwards a process takes one
// from the process with the most, if it has fewer. So a process that creates many series cannot keep others from having theirs, however early
// it began.
//
// No count is lost or exported twice by that. Counts of an evicted series that were never exported are added to the overflow series of its
// process. A series that has counted since it was exported is exported once more.

const (
	// maxSeries bounds the series of all processes, maxOfProcess those of one; a bound on memory may lower both. Further requests of a
	// process count in its overflow series.
	maxSeries    = 8192
	maxOfProcess = maxSeries / ofProcessShare
	minSeries    = 256
	// ofProcessShare is the part of all series that one process may have.
	ofProcessShare = 2
	// seriesBytes is the memory of a series, pointBytes that of its points in a report (TestSeriesBytes measures both), and exportedBytes that of
	// its points in the Prometheus exporter, which keeps them, with resource_to_telemetry_conversion.
	seriesBytes, pointBytes, exportedBytes = 2048, 1536, 16 << 10
	// endingShare is the part of all series that may wait at a time to be exported for the last time. Evictions for processes that
	// have no more than one in smallShare of all series are bounded by the number of all series instead.
	endingShare, smallShare = 8, 32
	// evictedAtOnce is how many series of the largest process are evicted at most for one new series of another one: it takes time to find
	// the largest. evictionSample is how many of its series are compared to find the least used one.
	evictedAtOnce, evictionSample = 8, 64
)

// Bound keeps the series within this memory, including their points in a report and in an exporter.
func (t *Totals) Bound(bytes uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = int(min(max(bytes/(t.seriesBytes()+pointBytes+exportedBytes+2*t.bucketBytes()), minSeries), maxSeries))
}

// seriesBytes returns the memory of a series.
func (t *Totals) seriesBytes() uint64 { return seriesBytes + t.bucketBytes() }

// bucketBytes returns the memory of the exponential buckets of a series that has as many as it may have. Its points in a report and in an
// exporter have as many.
func (t *Totals) bucketBytes() uint64 {
	if !t.exponential {
		return 0
	}
	return uint64(1+len(series{}.values)) * histogram.MaxBuckets * 8
}

// Bytes returns the memory of all series.
func (t *Totals) Bytes() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return uint64(t.series+t.ending+t.pending) * t.seriesBytes()
}

// held returns the number of series that count for the share of a process.
func (p *process) held() int { return len(p.series) - p.ending }

// find returns the series of a process with a key: its overflow series if it may have no further one. The caller holds the lock.
func (t *Totals) find(p *process, k *key) *series {
	if p.newest != nil && p.newestKey.Equal(&k.Key) && p.newestKey.peer == k.peer {
		return p.newest
	}
	s := p.series[*k]
	if s == nil || s.ending {
		if s = t.begin(p, k, s); s == nil {
			t.unnamedOf(p).Series++
			p.unkept = true
			return t.overflow(p, k)
		}
	}
	p.newest, p.newestKey = s, *k
	return s
}

// begin adds a series of a process, or keeps the one that was to end; nil if the process may have no further one.
func (t *Totals) begin(p *process, k *key, ending *series) *series {
	if p.held() >= t.most/ofProcessShare || t.series >= t.most && !t.evictFor(p) {
		return nil
	}
	t.series++
	if ending != nil {
		t.ending--
		p.ending--
		ending.ending = false
		return ending
	}
	s := t.newSeries(k)
	s.attributes = k.attributes()
	p.series[*k] = s
	return s
}

// overflow returns the overflow series of a process for requests of the same kind and role. There are few of them for each process, which are not bounded
// otherwise.
func (t *Totals) overflow(p *process, of *key) *series {
	k := key{Key: l7.Key{Semantics: of.Semantics, Role: of.Role, Overflow: true}}
	s := p.series[k]
	if s == nil {
		s = t.newSeries(&k)
		s.attributes = k.attributes()
		p.series[k] = s
		t.series++
	}
	return s
}

// evictFor evicts series of the process with the most, if that leaves it no fewer than p has with one more.
func (t *Totals) evictFor(p *process) bool {
	largest := p
	for _, s := range t.subjects {
		if s.process != nil && s.held() > largest.held() {
			largest = s.process
		}
	}
	for _, kept := range t.byResource { // some have no process any more
		if kept.held() > largest.held() {
			largest = kept
		}
	}
	more := min((largest.held()-p.held())/2, evictedAtOnce)
	evicted := 0
	mostEnding := t.most / endingShare
	if p.held() < t.most/smallShare {
		mostEnding = t.most
	}
	for evicted < more && t.evict(largest, mostEnding) {
		evicted++
	}
	return evicted > 0
}

// evict removes one of the least used series of a process. It fails if that series must be exported once more, and mostEnding series wait for
// that already.
func (t *Totals) evict(p *process, mostEnding int) bool {
	k, s := p.leastUsed()
	if s == nil {
		return false
	}
	switch {
	case !s.exported:
		t.series-- // before the overflow series, which may be a new one
		delete(p.series, k)
		t.unnamedOf(p).Series += s.requests()
		t.overflow(p, &k).take(s)
	case s.idle > 0: // all that it has counted was exported
		t.series--
		delete(p.series, k)
	case t.ending < mostEnding:
		t.series--
		t.ending++
		p.ending++
		s.ending = true
	default:
		return false
	}
	p.newest, p.unkept = nil, true
	return true
}

// leastUsed returns one of the exported series of a process that have been idle for longest; else one that was never exported.
func (p *process) leastUsed() (least key, of *series) {
	sampled, best := 0, 0
	for k, s := range p.series {
		if k.Overflow || s.ending {
			continue
		}
		rank := 1
		switch {
		case s.exported && s.idle > 0:
			rank = 2 + s.idle
		case !s.exported:
			rank = 2
		}
		if rank > best {
			least, of, best = k, s, rank
		}
		if sampled++; sampled == evictionSample {
			break
		}
	}
	return least, of
}

// take adds the counts of an evicted series. The start of a series that was exported stays: another one would be a reset.
func (s *series) take(evicted *series) {
	start := s.start
	s.merge(evicted)
	if s.exported {
		s.start = start
	}
}

// noteExported is called after all series of a process were exported: those that ended have been exported for the last time.
func (t *Totals) noteExported(p *process) {
	for k, s := range p.series {
		s.exported = true
		if s.ending {
			delete(p.series, k)
			t.ending--
			p.ending--
		}
	}
}

// join adds the series of a process to those of another one with the same resource. The process has not been exported before.
func (t *Totals) join(to, from *process) {
	for k, s := range from.series {
		same := to.series[k]
		if same == nil {
			to.series[k] = s
			continue
		}
		same.take(s)
		t.series--
	}
	t.joinPending(to, from)
}
