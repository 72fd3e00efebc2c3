// SPDX-License-Identifier: Apache-2.0

package hpack

import (
	"math"
	"unsafe"
)

// entryOverhead is what a field takes of the table's size in addition to its name and value: RFC 7541, section 4.1.
const entryOverhead = 32

// entry is a field of the dynamic table.
type entry struct {
	start  int // of its value, counted from the first that was ever kept
	length int
	name   int // bytes of its name, at least
	size   int // what it takes of the table, at least
	tag    Tag
	named  uint16 // bytes of its name, which is kept before its value; 0: it is not kept
	known  bool   // its value is kept, where it is wanted
}

// table has the fields that were added last, as many as its size allows. Sizes of texts that were not decoded are counted as small as
// they may be: what is evicted too late does no harm, see the package's description.
type table struct {
	entries []entry // oldest first
	gone    int     // entries at the beginning that were thrown out
	values  []byte  // with names before them that are kept
	dropped int     // bytes of values thrown out before those
	size    int
	max     int
}

// at returns the i-th field, the first being the newest, or nil where it is unknown.
func (t *table) at(i uint64) *entry {
	if i == 0 || i > uint64(len(t.entries)-t.gone) {
		return nil
	}
	return &t.entries[len(t.entries)-int(i)]
}

// value is the value of an entry. It is valid until the next field is added.
func (t *table) value(e *entry) []byte {
	start := e.start - t.dropped
	return t.values[start : start+e.length]
}

// name is that of an entry as far as it is kept, valid as long.
func (t *table) name(e *entry) []byte {
	end := e.start - t.dropped
	return t.values[end-int(e.named) : end]
}

// add adds a field, and its name and value where they are wanted; neither is in the table.
func (t *table) add(e entry, name, value []byte) {
	t.size += e.size
	for t.size > t.max && t.gone < len(t.entries) {
		t.drop()
	}
	if e.size > t.max {
		t.clear()
		return
	}
	t.tidy()
	if len(name) > math.MaxUint16 {
		name = nil // unused
	}
	e.start, e.length, e.named = t.dropped+len(t.values)+len(name), len(value), uint16(len(name))
	t.entries = append(t.entries, e)
	t.values = append(append(t.values, name...), value...)
}

// resize throws out what a smaller table has no room for.
func (t *table) resize(size int) {
	t.max = size
	for t.size > t.max {
		t.drop()
	}
}

func (t *table) drop() {
	t.size -= t.entries[t.gone].size
	t.gone++
}

func (t *table) clear() {
	t.dropped += len(t.values)
	t.entries, t.values, t.gone, t.size = t.entries[:0], t.values[:0], 0, 0
}

// tidy gives back the room of what was thrown out, once that is half of all.
func (t *table) tidy() {
	if 2*t.gone < len(t.entries) || t.gone == 0 {
		return
	}
	start := t.dropped + len(t.values)
	if t.gone < len(t.entries) {
		start = t.entries[t.gone].start - int(t.entries[t.gone].named)
	}
	t.values = t.values[:copy(t.values, t.values[start-t.dropped:])]
	t.dropped = start
	t.entries = t.entries[:copy(t.entries, t.entries[t.gone:])]
	t.gone = 0
}

// held is the number of bytes of memory held.
func (t *table) held() int { return cap(t.values) + cap(t.entries)*int(unsafe.Sizeof(entry{})) }
