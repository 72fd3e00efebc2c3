// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// formsKept is how many forms are known: logs of a kind have a few different lists of keys.
const formsKept = 8

// forms are what lists of attributes that came lately have in common. To put an attribute into a map is to look through
// all that are there already, and most are those of the log before: a copy of a map that has these leaves few to be put.
type forms struct {
	known []form
	next  int // the index that the next one replaces when all are taken
}

// form is what lists with the same keys in the same order have in common.
type form struct {
	cells []cell
	// common has the keys of all cells, and the values of those that are fixed.
	common pcommon.Map
	// size is an upper bound of the bytes of all but the texts of cells that are not fixed.
	size int
}

// cell is one attribute of a form.
type cell struct {
	key   string
	value model.AttributeValue
	// fixed: all lists had this value until now.
	fixed bool
	in    pcommon.Value // of common
	texts int           // an upper bound of the bytes of its texts, while it is fixed
}

// put writes attributes to an empty map and returns an upper bound of their size.
func (f *forms) put(out pcommon.Map, attributes []model.Attribute) int {
	form := f.of(attributes)
	if form.common.Len() != len(attributes) { // a key comes twice, which should not be
		return putAttributes(out, attributes)
	}
	form.loosen(attributes)
	form.common.CopyTo(out)
	i, size := 0, form.size
	for _, value := range out.All() {
		if !form.cells[i].fixed {
			size += putValue(value, &attributes[i].Value)
		}
		i++
	}
	return size
}

// of is the form that attributes have.
func (f *forms) of(attributes []model.Attribute) *form {
	for i := range f.known {
		if f.known[i].fits(attributes) {
			return &f.known[i]
		}
	}
	if len(f.known) < formsKept {
		f.known = append(f.known, newForm(attributes))
		return &f.known[len(f.known)-1]
	}
	form := &f.known[f.next]
	f.next = (f.next + 1) % formsKept
	*form = newForm(attributes)
	return form
}

// newForm is that of attributes, all of which are fixed.
func newForm(attributes []model.Attribute) form {
	f := form{cells: make([]cell, len(attributes)), common: pcommon.NewMap()}
	f.common.EnsureCapacity(len(attributes))
	for i := range attributes {
		a := &attributes[i]
		in := f.common.PutEmpty(a.Key)
		f.cells[i] = cell{key: a.Key, value: a.Value, fixed: true, in: in, texts: putValue(in, &a.Value)}
		f.size += sizeAttribute + sizeString(len(a.Key)) + f.cells[i].texts
	}
	return f
}

// fits reports whether attributes have these keys, in the same order.
func (f *form) fits(attributes []model.Attribute) bool {
	if len(f.cells) != len(attributes) {
		return false
	}
	for i := range attributes {
		if f.cells[i].key != attributes[i].Key {
			return false
		}
	}
	return true
}

// loosen takes the values that attributes do not have out of the form.
func (f *form) loosen(attributes []model.Attribute) {
	for i := range attributes {
		c := &f.cells[i]
		if c.fixed && c.value != attributes[i].Value {
			pcommon.NewValueEmpty().CopyTo(c.in)
			f.size -= c.texts
			c.fixed = false
		}
	}
}
