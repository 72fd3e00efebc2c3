// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// frame is one of a function in /usr/bin/shop.
func frame(kind model.FrameType, name string, line int64) *model.Frame {
	return &model.Frame{
		Type: kind, Mapping: &model.Mapping{Path: "/usr/bin/shop"},
		Lines: []model.Line{{Function: &model.Function{Name: name, Filename: "/src/" + name + ".c"}, Line: line}},
	}
}

// sample is one of a thread; frames are root first.
func sample(n int64, thread string, frames ...*model.Frame) model.Sample {
	s := model.Sample{ThreadID: 1, ThreadName: thread, Values: []int64{n}}
	for _, f := range frames {
		s.Frames = append([]*model.Frame{f}, s.Frames...)
	}
	return s
}

// onCPU is five seconds of a process, sampled each 9 ms.
func onCPU(service string, samples ...model.Sample) *model.Profile {
	return &model.Profile{
		Process: &model.Process{ServiceName: service}, SampleTypes: []model.ValueType{{Type: "samples", Unit: "count"}},
		PeriodType: model.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 9e6,
		Start: start, Duration: 5 * time.Second, Samples: samples,
	}
}

// graph is what the profiles add up to after they were OTLP.
func graph(t testing.TB, profiles ...*model.Profile) *Graph {
	g := &Graph{}
	for i, p := range profiles {
		if p.Process.ID.PID == 0 {
			p.Process.ID.PID = uint32(i + 1)
		}
	}
	message := pdata.NewBuilder("test", "1").Profiles(profiles)
	require.NoError(t, pdata.Fold(message, func(s pdata.FoldedSample) error { g.Add(s); return nil }))
	return g
}

// boxes are those of a drawing: the names on the way to each, and its value with those above it.
func boxes(d drawing) map[string]int64 {
	out := map[string]int64{}
	var way []string
	for i, at := range d.at {
		way = append(way[:d.depth[i]], d.labels[at].name)
		for n := range way {
			out[strings.Join(way[:n+1], ";")] += d.values[i]
		}
	}
	return out
}

// total is the sum of a column.
func total(column []int64) (n int64) {
	for _, v := range column {
		n = sum(n, v)
	}
	return n
}

// namesIn are the names of a drawing's labels.
func namesIn(d drawing) (out []string) {
	for _, l := range d.labels {
		out = append(out, l.name)
	}
	return out
}
