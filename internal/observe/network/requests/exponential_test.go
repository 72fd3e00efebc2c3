// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/histogram"
)

// histogramOf returns the histogram of values.
func histogramOf(values ...float64) *model.Histogram {
	var e histogram.Exponential
	for _, v := range values {
		e.Record(v)
	}
	return e.Value()
}

// TestExponentialTotals checks that all histograms of requests, calls and lookups are exponential if so configured, in seconds and bytes, and
// that no count is lost when series are joined or evicted.
func TestExponentialTotals(t *testing.T) {
	totals := NewTotals(Redaction{})
	totals.Exponential()
	peer := &Peer{}
	known := peers{1: peer}
	totals.ByPeer(func(series, generation uint32) *Peer { return known.of(series, generation) })
	one, two := observe.SubjectKey{PID: 1}, observe.SubjectKey{PID: 2}
	totals.Add(Connection{Subject: one, Series: 1}, exchange(l7.RoleServer, "/a", 200, 8))
	totals.Add(Connection{Subject: one, Series: 2}, exchange(l7.RoleServer, "/a", 200, 250)) // its peer is known later
	totals.Add(Connection{Subject: two, Series: 1}, exchange(l7.RoleServer, "/a", 200, 2000))
	totals.Add(Connection{Subject: one, Series: 1}, askedFor("a.example.", 1, ""))
	process := &model.Process{}
	totals.ByInstance()
	named(totals, map[observe.SubjectKey]*model.Process{one: process, two: process})
	known[2] = peer
	totals.NamePeers()
	got := map[string]*model.Histogram{}
	for _, metric := range totals.Metrics(time.Now(), l7.RoleUnknown)[0].Metrics {
		require.Len(t, metric.Points, 1, metric.Name)
		got[metric.Name] = metric.Points[0].Histogram
	}
	seconds := got["http.server.request.duration"]
	require.Equal(t, histogramOf(0.008, 0.25, 2).Buckets, seconds.Buckets)
	require.Equal(t, histogramOf(0.008, 0.25, 2).Exponential, seconds.Exponential)
	require.InDelta(t, 2.258, seconds.Sum, 1e-12)
	require.Equal(t, []float64{0.008, 2}, []float64{seconds.Min, seconds.Max})
	require.Equal(t, histogramOf(0, 0, 0), got["http.server.request.body.size"])
	require.Equal(t, histogramOf(1000, 1000, 1000), got["ebpf.http.server.response.size"])
	require.EqualValues(t, 1, got["dns.lookup.duration"].Count)
	require.NotNil(t, got["dns.lookup.duration"].Exponential)
}

// TestExponentialMemory checks that series with values of the whole range keep to the memory that is accounted for them, and that fewer fit
// in a bound.
func TestExponentialMemory(t *testing.T) {
	totals := NewTotals(Redaction{})
	totals.Exponential()
	for i := range 4000 {
		e := exchange(l7.RoleServer, "/a", 200, 0)
		spread := math.Exp2(float64(i%400) / 10)
		e.Request.Body, e.Request.Whole, e.Response.Body, e.Response.Whole = int64(spread), int64(spread), int64(spread), int64(spread)
		e.Response.Last = e.Request.First + int64(spread)
		totals.Add(Connection{Subject: observe.SubjectKey{PID: 1}}, e)
	}
	named(totals, map[observe.SubjectKey]*model.Process{{PID: 1}: {}})
	for _, metric := range totals.Metrics(time.Now(), l7.RoleUnknown)[0].Metrics {
		require.Greater(t, len(metric.Points[0].Histogram.Buckets), histogram.MaxBuckets/2, metric.Name)
		require.LessOrEqual(t, len(metric.Points[0].Histogram.Buckets), histogram.MaxBuckets, metric.Name)
	}
	require.EqualValues(t, seriesBytes+5*histogram.MaxBuckets*8, totals.Bytes())
	const bound = 300 * (seriesBytes + pointBytes + exportedBytes + 3*5*histogram.MaxBuckets*8)
	totals.Bound(bound)
	require.Equal(t, 300, totals.most)
}
