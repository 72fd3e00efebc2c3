// SPDX-License-Identifier: Apache-2.0

package flamegraph

import "time"

// interval is the bounded form of a Graph.
type interval struct {
	from, to time.Time
	leftOut  int64
	drawings []drawing
}

func (g *Graph) interval() interval {
	out := interval{from: g.from, to: g.to, leftOut: g.leftOut}
	nodes := 0
	for _, t := range g.trees {
		nodes += len(t.nodes)
	}
	for _, t := range g.trees {
		limit := maxDrawn
		if nodes > maxDrawn { // each type keeps its part of the page
			limit = max(1, len(t.nodes)*maxDrawn/nodes)
		}
		out.drawings = append(out.drawings, t.draw(limit))
	}
	return out
}

// boxes is the number of boxes that the interval adds to a page.
func (i interval) boxes() (n int) {
	for _, d := range i.drawings {
		n += len(d.at)
	}
	return n
}

// texts are the bytes of all labels, also of those that other intervals have.
func (i interval) texts() (n int) {
	for _, d := range i.drawings {
		for _, l := range d.labels {
			n += l.size()
		}
	}
	return n
}

// pageData is what assets/model.js reads. Texts are in it once.
type pageData struct {
	Strings []string `json:"strings"`
	// Labels has a column for each field of label, of indices in Strings.
	Labels    labelColumns   `json:"labels"`
	Types     []typeData     `json:"types"`
	Intervals []intervalData `json:"intervals"`
}

type labelColumns struct {
	Kind   []int32 `json:"kind"`
	Name   []int32 `json:"name"`
	Binary []int32 `json:"binary"`
	File   []int32 `json:"file"`
}

type typeData struct {
	Type string `json:"type"`
	Unit string `json:"unit"`
}

type intervalData struct {
	From     int64         `json:"from"` // milliseconds since 1970
	To       int64         `json:"to"`
	LeftOut  int64         `json:"leftOut"`
	Drawings []drawingData `json:"drawings"`
}

// drawingData is a drawing. Type is an index in Types, Label one in Labels.
type drawingData struct {
	Type   int     `json:"type"`
	Folded int64   `json:"folded"`
	Label  []int32 `json:"label"`
	Depth  []int32 `json:"depth"`
	Self   []int64 `json:"self"`
	Line   []int64 `json:"line"`
	// Period is the time that each unit of a value stands for. It is 0 where it is
	// not the same for all: Time then has the time of each box.
	Period int64   `json:"period"`
	Time   []int64 `json:"time,omitempty"`
}

// encoder gives texts, labels and types of several drawings one index each.
type encoder struct {
	out     pageData
	strings map[string]int32
	labels  map[label]int32
}

// encode makes the data of a page.
func encode(intervals []interval) pageData {
	e := encoder{strings: map[string]int32{}, labels: map[label]int32{}}
	e.out.Strings, e.out.Types, e.out.Intervals = []string{}, []typeData{}, []intervalData{}
	e.out.Labels = labelColumns{[]int32{}, []int32{}, []int32{}, []int32{}}
	for _, i := range intervals {
		data := intervalData{From: i.from.UnixMilli(), To: i.to.UnixMilli(), LeftOut: i.leftOut, Drawings: []drawingData{}}
		for _, d := range i.drawings {
			data.Drawings = append(data.Drawings, e.drawing(d))
		}
		e.out.Intervals = append(e.out.Intervals, data)
	}
	return e.out
}

func (e *encoder) drawing(d drawing) drawingData {
	out := drawingData{Type: e.typeOf(d), Folded: d.folded, Label: make([]int32, len(d.at)), Depth: d.depth, Self: d.values, Line: d.lines}
	indices := make([]int32, len(d.labels))
	for i, l := range d.labels {
		indices[i] = e.label(l)
	}
	for i, at := range d.at {
		out.Label[i] = indices[at]
	}
	var uniform bool
	if out.Period, uniform = d.period(); !uniform {
		out.Time = d.times
	}
	return out
}

// period returns the time per unit of value, if all boxes have the same.
func (d drawing) period() (period int64, uniform bool) {
	for i, value := range d.values {
		switch {
		case value == 0 && d.times[i] == 0:
		case value == 0 || d.times[i]%value != 0 || period != 0 && d.times[i]/value != period:
			return 0, false
		case period == 0 && d.times[i] == 0:
			return 0, allZero(d.times)
		default:
			period = d.times[i] / value
		}
	}
	return period, true
}

func allZero(values []int64) bool {
	for _, v := range values {
		if v != 0 {
			return false
		}
	}
	return true
}

func (e *encoder) typeOf(d drawing) int {
	of := typeData{Type: text(d.of.Type), Unit: text(d.of.Unit)}
	for i, known := range e.out.Types {
		if known == of {
			return i
		}
	}
	e.out.Types = append(e.out.Types, of)
	return len(e.out.Types) - 1
}

func (e *encoder) label(l label) int32 {
	at, ok := e.labels[l]
	if !ok {
		at = int32(len(e.labels))
		e.labels[l] = at
		columns := &e.out.Labels
		columns.Kind = append(columns.Kind, e.string(l.kind))
		columns.Name = append(columns.Name, e.string(l.name))
		columns.Binary = append(columns.Binary, e.string(l.binary))
		columns.File = append(columns.File, e.string(l.file))
	}
	return at
}

func (e *encoder) string(s string) int32 {
	at, ok := e.strings[s]
	if !ok {
		at = int32(len(e.out.Strings))
		e.strings[s] = at
		e.out.Strings = append(e.out.Strings, s)
	}
	return at
}
