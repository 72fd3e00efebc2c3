// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"cmp"
	"math"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// maxBuilt bounds the boxes of one graph while samples are added, those of
// (other) left out, of which each box has at most one; maxTexts bounds the bytes
// of their labels.
const (
	maxBuilt = 500_000
	maxTexts = 16 << 20
)

// budget is what the trees of a graph share.
type budget struct{ boxes, bytes int }

func (b *budget) exhausted() bool { return b.boxes <= 0 || b.bytes <= 0 }

// root is the index of the box of all samples, whose parent is noParent.
const (
	root     = 0
	noParent = -1
)

// weight is what a box counts for.
type weight struct {
	value int64
	time  int64 // nanoseconds, 0 where samples do not stand for time
}

// compare orders by time where samples stand for time, else by value: the same
// number of samples is more time where the sampling period is longer.
func (w weight) compare(v weight) int {
	return cmp.Or(cmp.Compare(w.time, v.time), cmp.Compare(w.value, v.value))
}

func (w *weight) add(more weight) {
	w.value, w.time = sum(w.value, more.value), sum(w.time, more.time)
}

// node is a box. Its parent has a lower index and is at least as heavy.
type node struct {
	weight
	label, parent int32
	// line is the one that most samples of the function were in, when more than
	// half were in one: that of Boyer and Moore's majority vote.
	line, votes int64
	// lines is set when the function was seen in several.
	lines bool
}

// edge is a step from a box to one above.
type edge struct{ parent, label int32 }

// tree is the boxes of one sample type.
type tree struct {
	of     model.ValueType
	left   *budget
	nodes  []node
	above  map[edge]int32
	labels []label
	known  map[label]int32
}

func newTree(of model.ValueType, left *budget) *tree {
	t := &tree{of: of, left: left, above: map[edge]int32{}, known: map[label]int32{}}
	t.nodes = []node{{parent: noParent, label: t.intern(label{kind: kindNote, name: "all"})}}
	t.intern(other)
	return t
}

// intern returns the index of l.
func (t *tree) intern(l label) int32 {
	i, ok := t.known[l]
	if !ok {
		i = int32(len(t.labels))
		t.labels = append(t.labels, l)
		t.known[l] = i
		t.left.bytes -= l.size()
	}
	return i
}

// add counts a sample in every box on its way.
func (t *tree) add(steps []step, w weight) {
	at := int32(root)
	t.nodes[at].add(w)
	for _, s := range steps {
		next, ok := t.next(at, s.label)
		if !ok {
			t.nodes[next].add(w)
			return
		}
		at = next
		t.nodes[at].add(w)
		t.nodes[at].vote(s.line, w.value)
	}
}

// next returns the box of l above the one at index at, or that of (other) and
// false when the tree is full.
func (t *tree) next(at int32, l label) (int32, bool) {
	if i, ok := t.known[l]; ok {
		if n, ok := t.above[edge{at, i}]; ok {
			return n, true
		}
	}
	full := t.left.exhausted()
	if full {
		l = other
	} else {
		t.left.boxes--
	}
	e := edge{at, t.intern(l)}
	n, ok := t.above[e]
	if !ok {
		n = int32(len(t.nodes))
		t.nodes = append(t.nodes, node{label: e.label, parent: at})
		t.above[e] = n
	}
	return n, !full
}

// vote counts a line of the source; 0 is none.
func (n *node) vote(line, value int64) {
	switch {
	case n.votes == 0:
		n.lines = n.lines || n.line != 0 && n.line != line
		n.line, n.votes = line, value
	case n.line == line:
		n.votes = sum(n.votes, value)
	case n.votes >= value:
		n.lines, n.votes = true, n.votes-value
	default:
		n.lines = true
		n.line, n.votes = line, value-n.votes
	}
}

// sum adds two values that are not negative.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
