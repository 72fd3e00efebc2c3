// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"cmp"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// maxDrawn bounds the boxes of one page, those of (other) left out.
const maxDrawn = 400_000

// drawing is the bounded form of a tree: its boxes in preorder, children from
// the heaviest to the lightest, as columns. It is the same for the same samples.
type drawing struct {
	of     model.ValueType
	labels []label
	// at is an index in labels; depth is 0 for the root.
	at, depth []int32
	// values and times are those of samples that end in the box, which leaves out
	// its children. Times are nanoseconds.
	values, times []int64
	// lines are negative when the box was seen in others as well, and 0 when none
	// is known.
	lines []int64
	// folded is the value of all that went into (other).
	folded int64
}

// drawer makes the drawing of a tree.
type drawer struct {
	*tree
	out     drawing
	indices map[int32]int32 // of labels of the tree in the drawing
	// first[n] to first[n+1] is where the children of node n are in children.
	first, children []int32
}

// draw keeps the n heaviest boxes; the others are summed up in (other) below
// their closest kept ancestor.
func (t *tree) draw(n int) drawing {
	d := drawer{tree: t, indices: map[int32]int32{}}
	d.out.of = t.of
	d.sortChildren()
	order, depths := d.preorder()
	kept := t.heaviest(order, n)
	for i, at := range order {
		if kept[at] {
			d.box(at, depths[i], kept)
		}
	}
	return d.out
}

// sortChildren fills first and children.
func (d *drawer) sortChildren() {
	d.first = make([]int32, len(d.nodes)+1)
	for _, n := range d.nodes[1:] {
		d.first[n.parent+1]++
	}
	for i := range d.nodes {
		d.first[i+1] += d.first[i]
	}
	next := slices.Clone(d.first)
	d.children = make([]int32, len(d.nodes)-1)
	for i, n := range d.nodes[1:] {
		d.children[next[n.parent]] = int32(i + 1)
		next[n.parent]++
	}
	for i := range d.nodes {
		slices.SortFunc(d.below(int32(i)), d.compare)
	}
}

// below returns the children of a node.
func (d *drawer) below(at int32) []int32 { return d.children[d.first[at]:d.first[at+1]] }

// compare orders siblings, whose labels differ.
func (d *drawer) compare(a, b int32) int {
	return cmp.Or(d.nodes[b].compare(d.nodes[a].weight), d.labels[d.nodes[a].label].compare(d.labels[d.nodes[b].label]))
}

// preorder returns all nodes, each before its children, and their depths.
func (d *drawer) preorder() (order, depths []int32) {
	order, depths = make([]int32, 0, len(d.nodes)), make([]int32, 0, len(d.nodes))
	depth := make([]int32, len(d.nodes))
	for todo := []int32{root}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		order, depths = append(order, at), append(depths, depth[at])
		for _, child := range slices.Backward(d.below(at)) {
			depth[child] = depth[at] + 1
			todo = append(todo, child)
		}
	}
	return order, depths
}

// heaviest marks the n heaviest nodes. A parent is before its children in order
// and not lighter: it is kept if they are.
func (t *tree) heaviest(order []int32, n int) []bool {
	kept := make([]bool, len(order))
	if n < len(order) {
		order = slices.Clone(order)
		slices.SortStableFunc(order, func(a, b int32) int { return t.nodes[b].compare(t.nodes[a].weight) })
		order = order[:n]
	}
	for _, at := range order {
		kept[at] = true
	}
	return kept
}

// box appends a kept node, and (other) below it if not all children are kept.
func (d *drawer) box(at, depth int32, kept []bool) {
	n := d.nodes[at]
	var children, folded weight
	for _, child := range d.below(at) {
		children.add(d.nodes[child].weight)
		if !kept[child] {
			folded.add(d.nodes[child].weight)
		}
	}
	line := n.line
	if n.lines {
		line = -line
	}
	// Sums saturate, so that children can add up to less or more than their parent.
	own := weight{max(0, n.value-children.value), max(0, n.time-children.time)}
	d.append(depth, n.label, own, line)
	if folded.value > 0 {
		d.append(depth+1, d.intern(other), folded, 0)
	}
}

func (d *drawer) append(depth, l int32, w weight, line int64) {
	d.out.at = append(d.out.at, d.index(l))
	d.out.depth = append(d.out.depth, depth)
	d.out.values = append(d.out.values, w.value)
	d.out.times = append(d.out.times, w.time)
	d.out.lines = append(d.out.lines, line)
	if d.tree.labels[l] == other {
		d.out.folded = sum(d.out.folded, w.value)
	}
}

// index returns the index in the drawing of a label of the tree.
func (d *drawer) index(l int32) int32 {
	at, ok := d.indices[l]
	if !ok {
		at = int32(len(d.out.labels))
		d.indices[l] = at
		d.out.labels = append(d.out.labels, d.tree.labels[l])
	}
	return at
}
