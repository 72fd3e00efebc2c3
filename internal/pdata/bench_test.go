// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// perSample reports the time and allocations of one sample.
func perSample(b *testing.B, samples int, run func()) {
	b.ReportAllocs()
	run()
	allocs := testing.AllocsPerRun(3, run)
	b.ResetTimer()
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
	b.ReportMetric(allocs/float64(samples), "allocs/sample")
}

func BenchmarkProfiles(b *testing.B) {
	in := load(b, 50, 1000, 30)
	builder := NewBuilder("bench", "0")
	perSample(b, 1000, func() { builder.Profiles(in) })
}

// BenchmarkProfilesOneProcess is a single busy program.
func BenchmarkProfilesOneProcess(b *testing.B) {
	in := load(b, 1, 1000, 30)
	builder := NewBuilder("bench", "0")
	perSample(b, 1000, func() { builder.Profiles(in) })
}

func BenchmarkBatches(b *testing.B) {
	in := load(b, 50, 20000, 30)
	builder := NewBuilder("bench", "0")
	perSample(b, 20000, func() { builder.Batches(in, 4000) })
}

func BenchmarkFold(b *testing.B) {
	p := NewBuilder("bench", "0").Profiles(load(b, 50, 1000, 30))
	perSample(b, 1000, func() {
		if err := Fold(p, func(FoldedSample) error { return nil }); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkMarshal is what an exporter adds, for comparison.
func BenchmarkMarshal(b *testing.B) {
	p := NewBuilder("bench", "0").Profiles(load(b, 50, 1000, 30))
	perSample(b, 1000, func() {
		if _, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkMetrics is a report of 10,000 series.
func BenchmarkMetrics(b *testing.B) {
	const points = 10_000
	in := series(50, points)
	builder := NewMetricsBuilder("bench", "0")
	b.ReportAllocs()
	for b.Loop() {
		builder.Batches(in)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/points, "ns/point")
}
