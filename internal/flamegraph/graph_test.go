// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestGraphAddsUp(t *testing.T) {
	main, work := frame(model.FrameGo, "main", 10), frame(model.FrameGo, "work", 20)
	cut := sample(4, "worker", work)
	cut.Error = model.StackCut
	g := graph(t,
		onCPU("shop", sample(1, "worker", main, work), sample(2, "worker", main), cut, sample(8, "", main)),
		onCPU("shop", sample(16, "worker", main, work), sample(32, "worker")),
		onCPU("pay", sample(64, "worker", main)),
	)
	require.Len(t, g.trees, 1)
	d := g.trees[0].draw(maxDrawn)
	require.Equal(t, map[string]int64{
		"all":                            127,
		"all;shop":                       63,
		"all;shop;worker":                55,
		"all;shop;worker;main":           19,
		"all;shop;worker;main;work":      17,
		"all;shop;worker;[no stack]":     32,
		"all;shop;[no thread name]":      8,
		"all;shop;[no thread name];main": 8,
		"all;pay":                        64,
		"all;pay;worker":                 64,
		"all;pay;worker;main":            64,
		"all;shop;worker;[stack not whole: max_depth]":      4,
		"all;shop;worker;[stack not whole: max_depth];work": 4,
	}, boxes(d))
	require.EqualValues(t, 127*9e6, d.Times[0])
	require.Zero(t, d.Folded)
	require.Equal(t, []time.Time{start, start.Add(5 * time.Second)}, []time.Time{g.from, g.to})
	for i, parent := range d.Parent {
		require.Less(t, parent, int32(i))
	}
}

func TestKinds(t *testing.T) {
	inlining := frame(model.FrameNative, "outer", 3)
	inlining.Lines = append([]model.Line{{Function: &model.Function{Name: "inner"}, Line: 9}}, inlining.Lines...)
	g := graph(t, onCPU("shop", sample(1, "worker",
		inlining, frame("v8js", "script", 1), frame(model.FrameRust, "rs", 1), frame(model.FrameKernel, "tcp_sendmsg", 0))))
	d := g.trees[0].draw(maxDrawn)
	kinds := map[string]string{}
	for i, name := range d.Names {
		kinds[name] = d.Kinds[i]
	}
	require.Equal(t, map[string]string{
		"all": "note", "shop": "service", "worker": "thread", "outer": "native", "inner": "inlined",
		"script": "runtime", "rs": "native", "tcp_sendmsg": "kernel",
	}, kinds)
}

func TestLines(t *testing.T) {
	at := func(n, line int64) model.Sample { return sample(n, "w", frame(model.FrameNative, "f", line)) }
	line := func(samples ...model.Sample) int64 {
		d := graph(t, onCPU("s", samples...)).trees[0].draw(maxDrawn)
		return d.Lines[len(d.Lines)-1]
	}
	require.EqualValues(t, 7, line(at(1, 7)))
	require.EqualValues(t, 7, line(at(1, 7), at(2, 7)))
	require.EqualValues(t, -7, line(at(3, 7), at(2, 8)))
	require.EqualValues(t, -8, line(at(2, 7), at(3, 8)))
	require.EqualValues(t, -8, line(at(2, 7), at(2, 6), at(5, 8)))
	require.EqualValues(t, 0, line(at(2, 0)))
}

func TestOtherTypes(t *testing.T) {
	waits := onCPU("shop", sample(5e6, "worker"))
	waits.SampleTypes[0], waits.PeriodType = model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}, model.ValueType{}
	bytes := onCPU("shop", sample(512, "worker"))
	bytes.SampleTypes[0] = model.ValueType{Type: "alloc_space", Unit: "bytes"}
	long := onCPU("shop", sample(math.MaxInt64/2, "worker"), sample(math.MaxInt64/2+2, "worker2"), sample(0, "x"), sample(-1, "y"))
	g := graph(t, waits, bytes, long)
	times := map[string]int64{}
	for _, tree := range g.trees {
		d := tree.draw(maxDrawn)
		times[d.Type+" "+d.Unit] = d.Times[0]
		require.NotContains(t, d.Names, "x")
		require.NotContains(t, d.Names, "y")
	}
	require.Equal(t, map[string]int64{"off_cpu nanoseconds": 5e6, "alloc_space bytes": 0, "samples count": math.MaxInt64}, times)

	var many []*model.Profile
	for i := range maxTypes + 3 {
		p := onCPU("s", sample(1, "w"))
		p.SampleTypes[0].Type = fmt.Sprint(i)
		many = append(many, p)
	}
	g = graph(t, many...)
	require.Len(t, g.trees, maxTypes)
	require.EqualValues(t, 3, g.leftOut)
}

// TestDrawingIsBounded holds that the heaviest boxes are drawn and that nothing is lost.
func TestDrawingIsBounded(t *testing.T) {
	var samples []model.Sample
	for i := range int64(1000) {
		s := sample(i+1, "w", frame(model.FrameNative, "main", 1), frame(model.FrameNative, fmt.Sprint("f", i), 1))
		samples = append(samples, s)
	}
	d := graph(t, onCPU("s", samples...)).trees[0].draw(14) // all, s, w, main and ten functions
	got := boxes(d)
	require.Len(t, got, 15)
	require.EqualValues(t, 1000*1001/2, got["all"])
	require.EqualValues(t, 991, got["all;s;w;main;f990"])
	require.EqualValues(t, 990*991/2, got["all;s;w;main;(other)"])
	require.EqualValues(t, 990*991/2, d.Folded)
	require.Less(t, len(d.Names), 20, "labels of what is not drawn are left out")
}

// TestTreeIsBounded holds that endless distinct stacks need no endless memory.
func TestTreeIsBounded(t *testing.T) {
	tree := newTree(model.ValueType{})
	tree.limit = 100
	for i := range 1000 {
		deep := []step{{label: label{name: "main"}}}
		for j := range 20 {
			deep = append(deep, step{label: label{name: fmt.Sprint(i, " ", j)}})
		}
		tree.add(deep, weight{1, 2})
	}
	require.LessOrEqual(t, len(tree.nodes), 2*tree.limit)
	require.LessOrEqual(t, len(tree.labels), tree.limit+2)
	d := tree.draw(1000)
	require.EqualValues(t, 1000, d.Values[0])
	require.EqualValues(t, 2000, d.Times[0])
	got := boxes(d)
	require.EqualValues(t, 1000, got["all;main"])
	require.EqualValues(t, 1000-4, d.Folded, "a hundred boxes are four whole stacks of twenty and the begin of a fifth")
	require.Equal(t, d.Folded, got["all;main;(other)"]+folded(got, "all;main;4 0;"))
}

// folded is what is in (other) below a way.
func folded(got map[string]int64, prefix string) (n int64) {
	for way, value := range got {
		if strings.HasPrefix(way, prefix) && strings.HasSuffix(way, "(other)") {
			n += value
		}
	}
	return n
}

func TestTextsAndDepthAreBounded(t *testing.T) {
	require.Len(t, text(strings.Repeat("é", 1000)), maxText+len("…"))
	require.Equal(t, strings.Repeat("é", maxText/2)+"…", text(strings.Repeat("é", 1000)))
	require.Len(t, text(strings.Repeat("\x80", 1000)), len("…"), "not UTF-8 at all")

	deep := sample(1, "w")
	for range maxDepth + 500 {
		deep.Frames = append(deep.Frames, frame(model.FrameNative, "f", 1))
	}
	d := graph(t, onCPU("s", deep)).trees[0].draw(maxDrawn)
	require.Len(t, d.Label, 1+2+maxDepth+1)
	require.EqualValues(t, 1, d.Folded)
}
