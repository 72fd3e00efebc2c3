// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func of(values ...float64) *Exponential {
	e := &Exponential{}
	for _, v := range values {
		e.Record(v)
	}
	return e
}

// TestValues holds what is exported of values whose buckets are known.
func TestValues(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		want   model.Histogram
	}{
		"nothing": {nil, model.Histogram{Exponential: &model.Exponential{}}},
		"zeros":   {[]float64{0, 0}, model.Histogram{Count: 2, Exponential: &model.Exponential{ZeroCount: 2}}},
		// 1 is the upper bound of the bucket -1 at each scale.
		"one": {[]float64{1, 1}, model.Histogram{
			Count: 2, Sum: 2, Min: 1, Max: 1, Buckets: []uint64{2}, Exponential: &model.Exponential{Scale: MaxScale, Offset: -1},
		}},
		// The sixteen octaves from 2^-8 to 2^8 are 144 of 160 buckets at scale 3, and would be 288 at scale 4: 1 and 2 lie
		// 8 buckets apart, and 2^-8 and 2^8 the rest.
		"octaves": {[]float64{1. / 256, 1, 2, 256}, model.Histogram{
			Count: 4, Sum: 259 + 1./256, Min: 1. / 256, Max: 256, Buckets: spaced(129, 0, 64, 72, 128),
			Exponential: &model.Exponential{Scale: 3, Offset: -8*8 - 1},
		}},
		"zero and more": {[]float64{0, 1}, model.Histogram{
			Count: 2, Sum: 1, Max: 1, Buckets: []uint64{1}, Exponential: &model.Exponential{Scale: MaxScale, Offset: -1, ZeroCount: 1},
		}},
		"all numbers": {[]float64{math.SmallestNonzeroFloat64, math.MaxFloat64 / 2}, model.Histogram{
			Count: 2, Sum: math.MaxFloat64 / 2, Min: math.SmallestNonzeroFloat64, Max: math.MaxFloat64 / 2, Buckets: spaced(132, 0, 131),
			Exponential: &model.Exponential{Scale: MinScale, Offset: -68},
		}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, *of(test.values...).Value()) })
	}
}

// spaced are so many buckets, with a value in some of them.
func spaced(n int, at ...int) []uint64 {
	list := make([]uint64, n)
	for _, i := range at {
		list[i] = 1
	}
	return list
}

// TestNoNumbers checks that what no observation reports does no harm.
func TestNoNumbers(t *testing.T) {
	e := of(math.NaN(), -1, math.Inf(-1), math.Inf(1))
	require.EqualValues(t, 4, e.Count)
	require.EqualValues(t, 3, e.Zero)
	require.Equal(t, []float64{0, math.MaxFloat64}, []float64{e.Min, e.Max})
}

// TestIndex checks that each value lies between the bounds of its bucket, at each scale: powers of two, which are bounds, exactly.
func TestIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for scale := int32(MinScale); scale <= MaxScale; scale++ {
		base := math.Ldexp(1, int(-scale)) // of the logarithm to base 2: the width of a bucket
		for range 5000 {
			v := math.Exp2(random.Float64()*2000 - 1000)
			i := float64(index(v, scale))
			log := math.Log2(v)
			require.LessOrEqual(t, i*base, log+1e-12*math.Abs(log), "%g at scale %d", v, scale)
			require.GreaterOrEqual(t, (i+1)*base, log-1e-12*math.Abs(log), "%g at scale %d", v, scale)
			if scale > MinScale {
				require.Equal(t, index(v, scale-1), index(v, scale)>>1, "%g at scale %d", v, scale)
			}
		}
		for exponent := -1074; exponent <= 1023; exponent++ {
			v := math.Ldexp(1, exponent)
			want := int32(math.Ceil(float64(exponent)/base)) - 1
			require.Equal(t, want, index(v, scale), "2^%d at scale %d", exponent, scale)
			if next := math.Nextafter(v, math.Inf(1)); exponent > -1022 {
				require.Equal(t, int32(math.Floor(float64(exponent)/base)), index(next, scale), "above 2^%d at scale %d", exponent, scale)
			}
		}
	}
}

// TestQuantiles holds the relative error that the scale promises: the middle of the bucket in which a quantile lies differs from it by
// (b-1)/(b+1) of it at most.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, draw := range map[string]func() float64{
		"narrow":      func() float64 { return 0.2 + random.Float64()/100 },
		"uniform":     func() float64 { return random.Float64() },
		"exponential": func() float64 { return random.ExpFloat64() / 50 },
		"lognormal":   func() float64 { return math.Exp(random.NormFloat64() * 2) },
		"sizes":       func() float64 { return float64(random.IntN(1 << 20)) },
		"two modes":   func() float64 { return []float64{1e-4, 3}[random.IntN(2)] * (1 + random.Float64()) },
	} {
		t.Run(name, func(t *testing.T) {
			e, values := &Exponential{}, make([]float64, 20000)
			for i := range values {
				values[i] = draw()
				e.Record(values[i])
			}
			requireWhole(t, e)
			sort.Float64s(values)
			base := math.Exp2(math.Exp2(float64(-e.scale)))
			for _, q := range []float64{0.001, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999} {
				exact := values[int(q*float64(len(values)))]
				require.InEpsilon(t, exact, middle(e, uint64(q*float64(len(values)))), (base-1)/(base+1)+1e-9, "quantile %g at scale %d", q, e.scale)
			}
		})
	}
}

// middle is the value with the same relative error towards both bounds of the bucket that has the value of a rank.
func middle(e *Exponential, rank uint64) float64 {
	passed := e.Zero
	for i, n := range e.counts {
		if passed += n; passed > rank {
			lower := math.Exp2(math.Ldexp(float64(e.offset+int32(i)), int(-e.scale)))
			upper := math.Exp2(math.Ldexp(float64(e.offset+int32(i)+1), int(-e.scale)))
			return 2 * lower * upper / (lower + upper)
		}
	}
	return 0
}

// requireWhole holds what is true of each histogram.
func requireWhole(t testing.TB, e *Exponential) {
	t.Helper()
	sum := e.Zero
	for _, n := range e.counts {
		sum += n
	}
	require.Equal(t, e.Count, sum)
	require.LessOrEqual(t, len(e.counts), MaxBuckets)
	require.LessOrEqual(t, cap(e.counts), 2*MaxBuckets)
	require.GreaterOrEqual(t, e.scale, int32(MinScale))
	if n := len(e.counts); n > 0 {
		require.NotZero(t, e.counts[0])
		require.NotZero(t, e.counts[n-1])
		require.Zero(t, slices.Max(append([]uint64{0}, e.counts[n:cap(e.counts)]...)), "what is no bucket yet is empty")
	}
}

// recorded is a histogram at a scale that the range of the values calls for: buckets of others that are merged into it are exact.
func requireEqual(t testing.TB, want, got *Exponential) {
	t.Helper()
	requireWhole(t, got)
	require.Equal(t, []uint64{want.Count, want.Zero}, []uint64{got.Count, got.Zero})
	require.Equal(t, []float64{want.Min, want.Max}, []float64{got.Min, got.Max})
	if want.Sum == 0 {
		require.Zero(t, got.Sum)
	} else {
		require.InEpsilon(t, want.Sum, got.Sum, 1e-9)
	}
	require.Equal(t, want.counts, got.counts)
	if len(want.counts) > 0 {
		require.Equal(t, []int32{want.scale, want.offset}, []int32{got.scale, got.offset})
	}
}

// TestOrderIsNothing checks that a histogram depends on its values alone: not on their order, nor on whether they were merged.
func TestOrderIsNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		values := make([]float64, random.IntN(60))
		spread := math.Exp2(random.Float64() * 10)
		for i := range values {
			if random.IntN(8) > 0 {
				values[i] = math.Exp2(random.NormFloat64() * spread / 4)
			}
		}
		want := of(values...)
		random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		requireEqual(t, want, of(values...))
		at := random.IntN(len(values) + 1)
		one, two := of(values[:at]...), of(values[at:]...)
		before := *two.Value()
		one.Merge(two)
		requireEqual(t, want, one)
		require.Equal(t, before, *two.Value(), "what was merged is as it was")
		for _, v := range values { // and the two share nothing
			one.Record(v)
		}
		require.Equal(t, before, *two.Value())
	}
}

// FuzzMerge does the same with any values.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 255, 127, 0, 0, 0, 0, 0, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, at uint8) {
		var values []float64
		for ; len(raw) >= 8; raw = raw[8:] {
			var bits uint64
			for _, b := range raw[:8] {
				bits = bits<<8 | uint64(b)
			}
			if v := math.Float64frombits(bits); v >= 0 && v < 1e300 {
				values = append(values, v)
			}
		}
		middle := min(int(at), len(values))
		one, two := of(values[:middle]...), of(values[middle:]...)
		one.Merge(two)
		requireEqual(t, of(values...), one)
	})
}

// explicit is the histogram that is recorded by default, with the bounds of durations.
type explicit struct {
	buckets       [15]uint64
	count         uint64
	sum, min, max float64
}

func (e *explicit) record(bounds []float64, v float64) {
	e.buckets[sort.SearchFloat64s(bounds, v)]++
	e.count++
	e.sum += v
	e.min, e.max = min(e.min, v), max(e.max, v)
}

func BenchmarkRecord(b *testing.B) {
	random := rand.New(rand.NewPCG(7, 8))
	values := make([]float64, 4096)
	for i := range values {
		values[i] = math.Exp(random.NormFloat64()) / 100
	}
	bounds := []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	b.Run("explicit", func(b *testing.B) {
		var e explicit
		for i := 0; b.Loop(); i++ {
			e.record(bounds, values[i%len(values)])
		}
	})
	b.Run("exponential", func(b *testing.B) {
		b.ReportAllocs()
		var e Exponential
		for i := 0; b.Loop(); i++ {
			e.Record(values[i%len(values)])
		}
	})
}
