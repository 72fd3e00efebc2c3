// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// FuzzMetricsBuilder makes model values of bytes; whatever they are, batches hold the same points as one message, each
// once, protobuf gives them back, and the size is never estimated too low.
func FuzzMetricsBuilder(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte("\x02\x03\x01points\xff\x01of\x02bytes\x03\x04\x05\x06\x07\x08"), 100)
	f.Add(make([]byte, 300), 1<<20)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		in := (&source{raw: raw}).metrics()
		whole := newTestMetricsBuilder().batches(in, 1<<40)
		batches := newTestMetricsBuilder().batches(in, limit)
		require.Equal(t, pointsOf(t, whole...), pointsOf(t, batches...))
		requireMetricsSize(t, in)
		if len(whole) > 0 {
			require.Equal(t, pointsOf(t, whole...), pointsOf(t, metricsRoundTrip(t, whole[0])))
		}
	})
}

func (s *source) metrics() []*model.Metrics {
	descriptors := []*model.Descriptor{bytesSent, open, load1, took, spread}
	var out []*model.Metrics
	for i := range s.byte() % 4 {
		m := &model.Metrics{Time: time.Unix(int64(s.uint()>>32), int64(i))}
		if i > 0 {
			m.Process = &model.Process{ID: model.ProcessID{PID: uint32(i)}, ServiceName: s.text()}
		}
		for n := range s.byte() % 6 {
			metric := model.Metric{Descriptor: descriptors[n]}
			for k := range s.byte() % 16 {
				metric.Points = append(metric.Points, s.point(metric.Descriptor, int64(k)))
			}
			m.Metrics = append(m.Metrics, metric)
		}
		out = append(out, m)
	}
	return out
}

// point makes one with attributes that no other number has.
func (s *source) point(d *model.Descriptor, number int64) model.Point {
	p := model.Point{Attributes: []model.Attribute{model.Int("number", number)}, Start: time.Unix(int64(s.uint()>>32), 0)}
	for n := range s.byte() % 4 {
		key := fmt.Sprint("key", n)
		p.Attributes = append(p.Attributes, []model.Attribute{
			model.Text(key, s.text()), model.Int(key, int64(s.uint())), model.Bool(key, s.byte()%2 == 1),
		}[s.byte()%3])
	}
	if d.Instrument != model.Distribution {
		p.Int, p.IsFloat = int64(s.uint()), s.byte()%2 == 1
		p.Float = float64(p.Int)
		return p
	}
	p.Histogram = &model.Histogram{Sum: float64(s.uint()), Min: float64(s.byte()), Max: float64(s.uint())}
	if d == spread {
		p.Histogram.Exponential = &model.Exponential{
			Scale: int32(s.byte()), Offset: -int32(s.byte()), ZeroCount: s.uint(), ZeroThreshold: float64(s.byte()),
		}
	}
	for range len(d.Bounds) + 1 {
		n := s.uint()
		p.Histogram.Count += n
		p.Histogram.Buckets = append(p.Histogram.Buckets, n)
	}
	return p
}
