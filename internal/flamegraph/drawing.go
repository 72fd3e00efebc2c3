// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"cmp"
	"slices"
)

// maxDrawn bounds the boxes of one drawing, those of (other) left out.
const maxDrawn = 10_000

// drawing is a tree as assets/page.js reads it: labels and boxes as columns, so
// that equal texts are there once. Parents come before their children.
type drawing struct {
	Type string `json:"type"`
	Unit string `json:"unit"`
	// Kinds, Names, Binaries and Files are the labels.
	Kinds    []string `json:"kinds"`
	Names    []string `json:"names"`
	Binaries []string `json:"binaries"`
	Files    []string `json:"files"`
	// Label and Parent are indices; Times are nanoseconds; Lines are negative
	// when the box was seen in others as well, and 0 when none is known.
	Label  []int32 `json:"label"`
	Parent []int32 `json:"parent"`
	Values []int64 `json:"values"`
	Times  []int64 `json:"times"`
	Lines  []int64 `json:"lines"`
	// Folded is the value of all that went into (other).
	Folded int64 `json:"folded"`
}

// drawer makes the drawing of a tree.
type drawer struct {
	*tree
	out drawing
	// place is the index in the drawing of each box, or noParent; others that of
	// the (other) above a box of the drawing.
	place   []int32
	indices map[int32]int32
	others  map[int32]int32
}

// draw keeps the n heaviest boxes; the rest goes to (other) above what they
// were above of.
func (t *tree) draw(n int) drawing {
	d := drawer{tree: t, indices: map[int32]int32{}, others: map[int32]int32{}, place: make([]int32, len(t.nodes))}
	d.out.Type, d.out.Unit = t.of.Type, t.of.Unit
	order := t.heaviest()
	n = min(n, len(order))
	for i, at := range order {
		d.place[at] = noParent
		if i < n {
			d.place[at] = d.box(t.nodes[at])
		}
	}
	for _, at := range order[n:] {
		if parent := t.nodes[at].parent; d.place[parent] != noParent {
			d.fold(d.place[parent], t.nodes[at].weight)
		}
	}
	for _, at := range d.others {
		d.out.Folded = sum(d.out.Folded, d.out.Values[at])
	}
	return d.out
}

// heaviest is the order of all boxes by weight; parents are before their
// children, since their index is lower and their weight not.
func (t *tree) heaviest() []int32 {
	order := make([]int32, len(t.nodes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(t.nodes[b].value, t.nodes[a].value), cmp.Compare(a, b))
	})
	return order
}

// box adds n, whose parent has been added.
func (d *drawer) box(n node) int32 {
	parent := int32(noParent)
	if n.parent != noParent {
		parent = d.place[n.parent]
	}
	line := n.line
	if n.lines {
		line = -line
	}
	return d.append(parent, n.label, n.weight, line)
}

// fold adds w to (other) above parent.
func (d *drawer) fold(parent int32, w weight) {
	at, ok := d.others[parent]
	if !ok {
		d.append(parent, d.intern(other), w, 0)
		return
	}
	total := weight{d.out.Values[at], d.out.Times[at]}
	total.add(w)
	d.out.Values[at], d.out.Times[at] = total.value, total.time
}

func (d *drawer) append(parent, l int32, w weight, line int64) int32 {
	at := int32(len(d.out.Label))
	d.out.Label = append(d.out.Label, d.label(l))
	d.out.Parent = append(d.out.Parent, parent)
	d.out.Values = append(d.out.Values, w.value)
	d.out.Times = append(d.out.Times, w.time)
	d.out.Lines = append(d.out.Lines, line)
	if d.tree.labels[l] == other {
		d.others[parent] = at
	}
	return at
}

// label returns the index in the drawing of a label of the tree.
func (d *drawer) label(l int32) int32 {
	at, ok := d.indices[l]
	if !ok {
		at = int32(len(d.out.Names))
		d.indices[l] = at
		text := d.tree.labels[l]
		d.out.Kinds = append(d.out.Kinds, text.kind)
		d.out.Names = append(d.out.Names, text.name)
		d.out.Binaries = append(d.out.Binaries, text.binary)
		d.out.Files = append(d.out.Files, text.file)
	}
	return at
}
