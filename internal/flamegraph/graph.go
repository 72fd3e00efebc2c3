// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"math"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// maxTypes bounds the sample types that get a graph of their own; samples of
// further ones are counted in the page.
const maxTypes = 8

// Graph adds up the samples of one page. The zero value is ready for use.
type Graph struct {
	trees    []*tree
	left     *budget
	from, to time.Time
	leftOut  int64 // samples of types beyond maxTypes
}

// Empty reports whether there is nothing to draw.
func (g *Graph) Empty() bool { return len(g.trees) == 0 }

// Add counts one sample of the interval that is drawn. What has no value is
// left out: it has no width.
func (g *Graph) Add(s pdata.FoldedSample) {
	if s.Value <= 0 {
		return
	}
	t := g.tree(s.Profile.Type)
	if t == nil {
		g.leftOut++
		return
	}
	begin, end := s.Profile.Start, s.Profile.Start.Add(s.Profile.Duration)
	if g.from.IsZero() || begin.Before(g.from) {
		g.from = begin
	}
	if end.After(g.to) {
		g.to = end
	}
	t.add(path(s), weight{s.Value, timeOf(s)})
}

// tree returns the tree of a sample type, or nil when there are too many.
func (g *Graph) tree(of model.ValueType) *tree {
	for _, t := range g.trees {
		if t.of == of {
			return t
		}
	}
	if len(g.trees) >= maxTypes {
		return nil
	}
	if g.left == nil {
		g.left = &budget{maxBuilt, maxTexts}
	}
	t := newTree(of, g.left)
	g.trees = append(g.trees, t)
	return t
}

// timeOf is the time that a sample stands for in nanoseconds, 0 where it does
// not stand for time.
func timeOf(s pdata.FoldedSample) int64 {
	nanoseconds := model.ValueType{Type: "cpu", Unit: "nanoseconds"}
	switch {
	case s.Profile.Type.Unit == "nanoseconds":
		return s.Value
	case s.Profile.Type.Unit != "count" || s.Profile.PeriodType != nanoseconds || s.Profile.Period <= 0:
		return 0
	case s.Value > math.MaxInt64/s.Profile.Period:
		return math.MaxInt64
	}
	return s.Value * s.Profile.Period
}
