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
	require.EqualValues(t, 127*9e6, total(d.times))
	require.Zero(t, d.folded)
	require.Equal(t, []time.Time{start, start.Add(5 * time.Second)}, []time.Time{g.from, g.to})
	require.Zero(t, d.depth[0])
	for i, depth := range d.depth[1:] {
		require.Positive(t, depth)
		require.LessOrEqual(t, depth, d.depth[i]+1)
	}
}

func TestKinds(t *testing.T) {
	inlining := frame(model.FrameNative, "outer", 3)
	inlining.Lines = append([]model.Line{{Function: &model.Function{Name: "inner"}, Line: 9}}, inlining.Lines...)
	g := graph(t, onCPU("shop", sample(1, "worker",
		inlining, frame("v8js", "script", 1), frame(model.FrameRust, "rs", 1), frame(model.FrameKernel, "tcp_sendmsg", 0))))
	d := g.trees[0].draw(maxDrawn)
	kinds := map[string]string{}
	for _, l := range d.labels {
		kinds[l.name] = l.kind
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
		return d.lines[len(d.lines)-1]
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
		times[d.of.Type+" "+d.of.Unit] = total(d.times)
		require.NotContains(t, namesIn(d), "x")
		require.NotContains(t, namesIn(d), "y")
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

// TestDrawingIsBounded checks that the heaviest boxes are drawn and that nothing is lost.
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
	require.EqualValues(t, 990*991/2, d.folded)
	require.Less(t, len(d.labels), 20, "labels of what is not drawn are left out")
}

// TestTreeIsBounded checks that endless distinct stacks need no endless memory.
func TestTreeIsBounded(t *testing.T) {
	const limit = 100
	tree := newTree(model.ValueType{}, &budget{limit - 1, maxTexts}) // a box is the root
	for i := range 1000 {
		deep := []step{{label: label{name: "main"}}}
		for j := range 20 {
			deep = append(deep, step{label: label{name: fmt.Sprint(i, " ", j)}})
		}
		tree.add(deep, weight{1, 2})
	}
	require.LessOrEqual(t, len(tree.nodes), 2*limit)
	require.LessOrEqual(t, len(tree.labels), limit+2)
	d := tree.draw(1000)
	require.EqualValues(t, 1000, total(d.values))
	require.EqualValues(t, 2000, total(d.times))
	got := boxes(d)
	require.EqualValues(t, 1000, got["all;main"])
	require.EqualValues(t, 1000-4, d.folded, "a hundred boxes are four whole stacks of twenty and the begin of a fifth")
	require.Equal(t, d.folded, got["all;main;(other)"]+folded(got, "all;main;4 0;"))
}

// TestTextsOfAGraphAreBounded checks that long names need no endless memory, in no number of types.
func TestTextsOfAGraphAreBounded(t *testing.T) {
	g := &Graph{left: &budget{maxBuilt, 10_000}}
	of := []model.ValueType{{Type: "a"}, {Type: "b"}}
	for i := range 1000 {
		g.tree(of[i%2]).add([]step{{label: label{name: fmt.Sprint(strings.Repeat("x", 500), i)}}}, weight{1, 0})
	}
	texts, values := 0, int64(0)
	for _, tree := range g.trees {
		d := tree.draw(maxDrawn)
		texts += interval{drawings: []drawing{d}}.texts()
		values += total(d.values)
		require.Positive(t, d.folded)
	}
	require.Less(t, texts, 10_000+600)
	require.EqualValues(t, 1000, values)
}

// TestLongerPeriodsCountMore checks that boxes are kept and ordered by the time that they stand for.
func TestLongerPeriodsCountMore(t *testing.T) {
	slow := onCPU("slow", sample(2, "w"))
	slow.Period = 576e6
	d := graph(t, onCPU("fast", sample(100, "w")), slow).trees[0].draw(2)
	require.Equal(t, []string{"all", "(other)", "slow"}, firstThree(d))
}

func firstThree(d drawing) (out []string) {
	for _, at := range d.at[:3] {
		out = append(out, d.labels[at].name)
	}
	return out
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
	require.Len(t, d.at, 1+2+maxDepth+1)
	require.EqualValues(t, 1, d.folded)
}
