// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// exponentialOf counts values by the formula of the data model.
func exponentialOf(scale int32, values []float64) *exponential {
	e := &exponential{scale: scale}
	if len(values) == 0 {
		return e
	}
	index := func(v float64) int64 { return int64(math.Ceil(math.Log2(v)*math.Exp2(float64(scale)))) - 1 }
	e.offset = index(slices.Min(values))
	e.counts = make([]int64, index(slices.Max(values))-e.offset+1)
	for _, v := range values {
		e.counts[index(v)-e.offset]++
	}
	return e
}

// logNormal has values around 20 ms.
func logNormal(random *rand.Rand, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = 0.02 * math.Exp(random.NormFloat64())
	}
	return values
}

// TestExponentialQuantiles checks that quantiles are within one bucket of those of the values themselves, also where points of different scales
// are added up.
func TestExponentialQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	one, two := logNormal(random, 3000), logNormal(random, 1000)
	values := slices.Sorted(slices.Values(append(slices.Clone(one), two...)))
	for _, scale := range []int32{1, 3, 5} {
		sum := exponentialOf(scale, one).combined(exponentialOf(4, two), 1)
		require.Equal(t, min(scale, 4), sum.scale)
		for _, q := range []float64{0.01, 0.5, 0.95, 0.999} {
			got, ok := sum.quantile(q, values[0], values[len(values)-1])
			require.True(t, ok)
			width, above := math.Exp2(math.Exp2(-float64(sum.scale))), int(q*float64(len(values)))
			require.GreaterOrEqual(t, got, values[above-1]/width, "scale %d quantile %v", scale, q)
			require.LessOrEqual(t, got, values[above]*width, "scale %d quantile %v", scale, q)
		}
	}
}

// TestExponentialDifference checks that what was counted in between is left, where the scale was lowered meanwhile, too.
func TestExponentialDifference(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	before, between := logNormal(random, 500), logNormal(random, 700)
	after := append(slices.Clone(before), between...)
	difference := exponentialOf(2, after).combined(exponentialOf(5, before), -1)
	want := exponentialOf(2, between).combined(exponentialOf(2, nil), 1)
	begin := want.offset - difference.offset
	require.Equal(t, want.counts, difference.counts[begin:begin+int64(len(want.counts))])
	var all int64
	for _, n := range difference.counts {
		all += n
	}
	require.Equal(t, int64(len(between)), all)
}

// TestExponentialZero checks that the zero bucket comes first and is judged linearly, and that nothing counted has no quantile.
func TestExponentialZero(t *testing.T) {
	e := &exponential{scale: 0, offset: 0, counts: []int64{10}, zero: 10, threshold: 0.5} // (1, 2]
	got, ok := e.quantile(0.25, 0, 2)
	require.True(t, ok)
	require.InDelta(t, 0.25, got, 1e-9)
	got, _ = e.quantile(0.75, 0, 2)
	require.InDelta(t, math.Sqrt2, got, 1e-9)
	_, ok = (&exponential{}).quantile(0.5, 0, 1)
	require.False(t, ok)
}

// TestExponentialRequests checks that the view has quantiles of exponential histograms: of what came since the point before.
func TestExponentialRequests(t *testing.T) {
	o := New(start, 20*time.Second)
	point := func(now time.Time, counts ...uint64) {
		m := newMessage(map[string]any{"service.name": "pay"})
		metric := m.metrics.AppendEmpty()
		metric.SetName("http.server.request.duration")
		p := metric.SetEmptyExponentialHistogram().DataPoints().AppendEmpty()
		_ = p.Attributes().FromRaw(get(200))
		p.SetStartTimestamp(pcommon.NewTimestampFromTime(at(1)))
		p.SetTimestamp(pcommon.NewTimestampFromTime(now))
		p.Positive().SetOffset(-4) // (1/16, 1/8], (1/8, 1/4], ...
		p.Positive().BucketCounts().FromRaw(counts)
		for _, n := range counts {
			p.SetCount(p.Count() + n)
		}
		p.SetMin(0.07)
		p.SetMax(0.9)
		require.NoError(t, o.AddMetrics(m.json(t)))
	}
	point(at(5), 100)
	point(at(30), 100, 0, 0, 40)
	got := o.Requests()
	require.Len(t, got, 1)
	require.Equal(t, int64(40), got[0].Count)
	require.True(t, got[0].Timed)
	require.InEpsilon(t, 0.5*math.Pow(0.9/0.5, 0.5), got[0].Median, 1e-9)
	require.InEpsilon(t, 0.5*math.Pow(0.9/0.5, 0.95), got[0].P95, 1e-9)
}

// FuzzExponential checks that points of any kind are added up within the bound.
func FuzzExponential(f *testing.F) {
	f.Add(int32(3), int32(-40), uint16(160), int32(0), int32(2), uint16(3))
	f.Add(int32(20), int32(math.MaxInt32), uint16(9), int32(-10), int32(math.MinInt32), uint16(0))
	f.Fuzz(func(t *testing.T, scale, offset int32, n uint16, scale2, offset2 int32, n2 uint16) {
		make := func(scale, offset int32, n uint16) *exponential {
			p := pmetric.NewExponentialHistogramDataPoint()
			p.SetScale(scale)
			p.Positive().SetOffset(offset)
			for range n {
				p.Positive().BucketCounts().Append(1)
			}
			return newExponential(p)
		}
		a, b := make(scale, offset, n), make(scale2, offset2, n2)
		if a == nil || b == nil {
			return
		}
		sum := a.combined(b, 1)
		require.LessOrEqual(t, len(sum.counts), maxExponentialBuckets)
		var all int64
		for _, count := range sum.counts {
			all += count
		}
		require.Equal(t, int64(n)+int64(n2), all)
		got, ok := sum.quantile(0.5, 0, math.Inf(1))
		require.Equal(t, all > 0, ok)
		require.False(t, math.IsNaN(got))
	})
}
