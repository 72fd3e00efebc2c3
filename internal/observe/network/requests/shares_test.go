// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// backend adds up the counts that each process reports, as a backend for cumulative metrics does: a point that is new, or has another start,
// counts from zero.
type backend struct {
	last  map[string]uint64
	sums  map[uint32]uint64 // by process
	named map[uint32]uint64 // those that were not in an overflow series
}

func newBackend() *backend {
	return &backend{last: map[string]uint64{}, sums: map[uint32]uint64{}, named: map[uint32]uint64{}}
}

// report takes a report, and returns how many series each process has, without its overflow series.
func (b *backend) report(t *testing.T, totals *Totals) (series map[uint32]int) {
	t.Helper()
	require.NoError(t, totals.LeaveOut(func(observe.SubjectKey) (bool, bool, error) { return true, true, nil }))
	series = map[uint32]int{}
	for _, of := range totals.Metrics(time.Now(), l7.RoleUnknown) {
		for _, metric := range of.Metrics {
			if metric.Name != "http.server.request.duration" {
				continue
			}
			for _, p := range metric.Points {
				key := fmt.Sprint(of.Process.ID, p.Attributes, p.Start.UnixNano())
				require.GreaterOrEqual(t, p.Histogram.Count, b.last[key], "a cumulative count never decreases: %s", key)
				increase := p.Histogram.Count - b.last[key]
				b.last[key] = p.Histogram.Count
				b.sums[of.Process.ID.PID] += increase
				if p.Attributes[0].Key != "otel.metric.overflow" {
					b.named[of.Process.ID.PID] += increase
					series[of.Process.ID.PID]++
				}
			}
		}
	}
	return series
}

// overflown returns how many requests were exported in overflow series.
func (b *backend) overflown() (sum uint64) {
	for pid, n := range b.sums {
		sum += n - b.named[pid]
	}
	return sum
}

// hostile counts a request in a series of its own for each number below 2,000.
func hostile(totals *Totals, pid uint32, n int) {
	path := fmt.Sprintf("/r-%c%c", 'a'+n%10, 'a'+n/10%20)
	totals.Add(Connection{Subject: observe.SubjectKey{PID: pid}}, exchange(l7.RoleServer, path, 200+n/200%10, 1))
}

// crowd returns totals of that many series at most, with processes that each may have as many as all of them.
func crowd(most int, pids ...uint32) *Totals {
	totals := NewTotals(Redaction{})
	totals.most = most
	now := time.Unix(1000, 0)
	totals.now = func() time.Time { now = now.Add(time.Microsecond); return now }
	who := map[observe.SubjectKey]*model.Process{}
	for _, pid := range pids {
		totals.process(observe.SubjectKey{PID: pid})
		who[observe.SubjectKey{PID: pid}] = &model.Process{ID: model.ProcessID{PID: pid}, ServiceName: fmt.Sprint(pid)}
	}
	named(totals, who)
	return totals
}

// TestFairShares checks that processes that have taken all series leave each of the others its share, whenever it begins, and that all
// reports together have what was counted.
func TestFairShares(t *testing.T) {
	const most, honest, attackers = 1024, 100, 6
	for name, busy := range map[string]bool{"the others count on": true, "the others are quiet": false} {
		t.Run(name, func(t *testing.T) {
			totals, got := crowd(most, 1, 2, 3, 4, 5, 6, honest), newBackend()
			sent := map[uint32]uint64{}
			attack := func(pid uint32, requests int) {
				for range requests {
					hostile(totals, pid, int(sent[pid])%2000)
					sent[pid]++
				}
			}
			for pid := range uint32(4) { // they take all there is
				attack(pid+1, 2000)
			}
			require.InDelta(t, most, totals.series, 4)
			got.report(t, totals)
			var series map[uint32]int
			for round := range 50 {
				if busy || round < 2 {
					for pid := range uint32(attackers) {
						attack(pid+1, 500)
					}
				}
				for i := range 60 { // 30 series, the 10 after the first 20 later
					n := i % 30
					if n >= 20 && round < 10 {
						continue
					}
					totals.Add(Connection{Subject: observe.SubjectKey{PID: honest}}, exchange(l7.RoleServer, fmt.Sprintf("/own-%c%c", 'a'+n%10, 'a'+n/10), 200, 1))
					sent[honest]++
				}
				series = got.report(t, totals)
				require.LessOrEqual(t, totals.series+totals.ending, most+most/endingShare+most/smallShare+2*(attackers+1))
			}
			require.Equal(t, sent, got.sums, "what was exported is what was counted")
			require.Equal(t, got.overflown(), totals.Unnamed().Series)
			require.Equal(t, sent[honest], got.named[honest], "no request of the honest process is in its overflow series")
			require.Equal(t, 30, series[honest])
			if busy {
				for pid := range uint32(attackers) {
					require.InDelta(t, (most-30)/attackers, series[pid+1], most/20, "%v", series)
				}
			}
			require.Zero(t, totals.ending)
		})
	}
}

// TestEvictedWithinAnInterval checks that the counts of a series that is evicted before the first report, and of one that comes back, are
// exported.
func TestEvictedWithinAnInterval(t *testing.T) {
	const most = 256
	totals, got := crowd(most, 1, 2), newBackend()
	for n := range 600 {
		hostile(totals, 1, n)
	}
	for n := range 600 {
		hostile(totals, 2, n)
		hostile(totals, 1, n)
	}
	got.report(t, totals)
	require.Equal(t, map[uint32]uint64{1: 1200, 2: 600}, got.sums)
	require.Equal(t, got.overflown(), totals.Unnamed().Series)
	for n := range 600 { // all have counted since the report
		hostile(totals, 1, n)
		hostile(totals, 2, n)
	}
	for n := range 8 {
		totals.Add(Connection{Subject: observe.SubjectKey{PID: 3}}, exchange(l7.RoleServer, fmt.Sprintf("/own-%c", 'a'+n), 200, 1))
	}
	named(totals, map[observe.SubjectKey]*model.Process{{PID: 3}: {ID: model.ProcessID{PID: 3}, ServiceName: "3"}})
	for n := range 600 {
		hostile(totals, 1, n)
	}
	got.report(t, totals)
	require.Equal(t, map[uint32]uint64{1: 2400, 2: 1200, 3: 8}, got.sums)
	require.Equal(t, uint64(8), got.named[3])
	require.Equal(t, got.overflown(), totals.Unnamed().Series)
}

// TestSeriesBytes measures the memory of series and of their points, so that the bound of memory holds.
func TestSeriesBytes(t *testing.T) {
	const series = 2000
	inUse := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	totals := crowd(maxSeries, 1)
	before := inUse()
	for n := range series {
		hostile(totals, 1, n)
	}
	held := inUse()
	metrics := totals.Metrics(time.Now(), l7.RoleUnknown)
	points := inUse()
	perSeries, perPoints := (held-before)/series, (points-held)/series
	t.Logf("%d bytes for a series, %d for its points", perSeries, perPoints)
	require.Equal(t, series, totals.series)
	require.Len(t, metrics, 1)
	require.InDelta(t, seriesBytes, perSeries, seriesBytes/2)
	require.InDelta(t, pointBytes, perPoints, pointBytes/2)
	require.EqualValues(t, series*seriesBytes, totals.Bytes())
	runtime.KeepAlive(metrics)

	totals.Bound(300 * (seriesBytes + pointBytes + exportedBytes))
	require.Equal(t, 300, totals.most)
	totals.Bound(1)
	require.Equal(t, minSeries, totals.most)
	totals.Bound(1 << 40)
	require.Equal(t, maxSeries, totals.most)
}
