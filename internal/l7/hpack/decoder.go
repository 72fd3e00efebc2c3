// SPDX-License-Identifier: Apache-2.0

package hpack

import (
	"errors"
	"unsafe"
)

// ErrInvalid says that a block breaks the rules of RFC 7541, so that nothing that follows in it can be read.
var ErrInvalid = errors.New("reading a header block: it breaks the rules of RFC 7541")

// Limits bound what one decoder holds.
type Limits struct {
	Table int // size of the table, by the measure of RFC 7541, section 4.1
	Text  int // bytes of a name or value as it is sent; longer values are not read
}

// Field is one field of a block.
type Field struct {
	Tag Tag
	// Known says that Value is the field's value. It is not where the value was too long or was not seen, nor of an Unwanted field,
	// unless all are reported.
	Known bool
	Value []byte // valid until the function that was given the field returns
	// Name is the field's name, where all are reported and it is known; valid as long.
	Name []byte
}

// Decoder reads the blocks of one direction of a connection.
type Decoder struct {
	names  *Names
	limits Limits
	field  func(*Field)
	table  table
	all    bool // names and values of all fields are reported

	carry    []byte // the beginning of a field that goes on later
	skip     uint64 // bytes of a long value that are still to come
	decoded  []byte // the value that was decoded last
	name     []byte // the name that was read last, where all are reported
	reported Field  // here it is not allocated each time
}

// NewDecoder makes a decoder that gives each field to the function.
func NewDecoder(names *Names, limits Limits, field func(*Field)) *Decoder {
	return &Decoder{names: names, limits: limits, field: field, table: table{max: limits.Table}}
}

// ReportAll has the names and values of all fields reported, wanted or not, which takes longer and more memory within the limits. It is called
// before anything is read.
func (d *Decoder) ReportAll() { d.all = true }

// DefaultTableSize is the size of a table until its sender says another: RFC 9113, section 6.5.2.
const DefaultTableSize = 4096

// Begin says that nothing was sent before: the table is empty and has the size that connections begin with.
func (d *Decoder) Begin() {
	d.Forget()
	d.table.max = min(DefaultTableSize, d.limits.Table)
}

// Forget notes that fields may have been added unseen: the places of those before are not known any more. It also ends a block.
func (d *Decoder) Forget() {
	d.table.clear()
	d.carry, d.skip = d.carry[:0], 0
}

// Write reads the next part of a block. Its error is ErrInvalid.
func (d *Decoder) Write(part []byte) error {
	part = d.skipLong(part)
	for len(part) > 0 {
		n, err := d.readJoined(part)
		if err != nil {
			return err
		}
		if n == 0 {
			d.carry = append(d.carry, part...)
			return nil
		}
		part = d.skipLong(part[n:])
	}
	return nil
}

// readJoined reads one field, which may have begun in a part before, and returns how many of the bytes it took: 0 where they do not
// hold the rest of it.
func (d *Decoder) readJoined(part []byte) (int, error) {
	const step = 256 // so that what is kept of a field is hardly longer than the field
	began := len(d.carry)
	if began == 0 {
		return d.read(part)
	}
	for at := 0; at < len(part); at += step {
		d.carry = append(d.carry, part[at:min(at+step, len(part))]...)
		if n, err := d.read(d.carry); n > 0 || err != nil {
			d.carry = d.carry[:0]
			return n - began, err
		}
	}
	d.carry = d.carry[:began]
	return 0, nil
}

// End ends a block. Its error is ErrInvalid, where the block ends within a field.
func (d *Decoder) End() error {
	if len(d.carry) > 0 || d.skip > 0 {
		return ErrInvalid
	}
	return nil
}

// Held is the number of bytes of memory held, the decoder itself included.
func (d *Decoder) Held() int {
	return int(unsafe.Sizeof(*d)) + d.table.held() + cap(d.carry) + cap(d.decoded) + cap(d.name)
}

// skipLong passes over what is left of a long value.
func (d *Decoder) skipLong(part []byte) []byte {
	n := min(d.skip, uint64(len(part)))
	d.skip -= n
	return part[n:]
}

// read reads one field from the beginning of the bytes and returns how many it took: 0 where they do not hold all of it.
func (d *Decoder) read(b []byte) (int, error) {
	const indexed, added, resized = 0x80, 0x40, 0x20
	switch {
	case b[0]&indexed != 0:
		place, n, err := integer(b, 7)
		if n > 0 {
			err = d.reportPlace(place)
		}
		return n, err
	case b[0]&added != 0:
		return d.literal(b, 6, true)
	case b[0]&resized != 0:
		size, n, err := integer(b, 5)
		if n > 0 {
			d.table.resize(int(min(size, uint64(d.limits.Table))))
		}
		return n, err
	}
	return d.literal(b, 4, false)
}

// reportPlace reports the field at a place of the tables.
func (d *Decoder) reportPlace(place uint64) error {
	if place == 0 {
		return ErrInvalid
	}
	if place <= uint64(staticLength) {
		d.report(d.names.static[place], true, staticNames[place], staticValues[place])
		return nil
	}
	e := d.table.at(place - uint64(staticLength))
	if e == nil {
		d.report(UnknownName, false, nil, nil)
		return nil
	}
	d.report(e.tag, e.known, d.table.name(e), d.table.value(e))
	return nil
}

func (d *Decoder) report(tag Tag, known bool, name, value []byte) {
	d.reported = Field{Tag: tag, Known: known && d.reads(tag), Value: value}
	if d.all {
		d.reported.Name = name
	}
	d.field(&d.reported)
	d.reported.Value, d.reported.Name = nil, nil
}

// reads reports whether the values of fields of this name are read.
func (d *Decoder) reads(tag Tag) bool { return tag != UnknownName && (d.all || tag != Unwanted) }

// literal reads a field whose value, and perhaps name, is sent. bits is the size of the place of its name in the first byte.
func (d *Decoder) literal(b []byte, bits uint, added bool) (int, error) {
	place, n, err := integer(b, bits)
	if n == 0 {
		return 0, err
	}
	e := d.nameAt(place)
	if place == 0 {
		name, taken, err := d.text(b[n:])
		if taken == 0 || err != nil {
			return 0, err
		}
		if name.missing > 0 {
			return 0, ErrInvalid // no name has such a length
		}
		if e, err = d.newName(name); err != nil {
			return 0, err
		}
		n += taken
	}
	value, taken, err := d.text(b[n:])
	if taken == 0 || err != nil {
		return 0, err
	}
	return n + taken, d.reportLiteral(e, value, added)
}

// nameAt is the name at a place of the tables and its size, at least.
func (d *Decoder) nameAt(place uint64) entry {
	d.name = d.name[:0]
	if place <= uint64(staticLength) {
		d.keepName(staticNames[place])
		return entry{tag: d.names.static[place], name: len(staticNames[place])}
	}
	if e := d.table.at(place - uint64(staticLength)); e != nil {
		d.keepName(d.table.name(e))
		return entry{tag: e.tag, name: e.name}
	}
	return entry{tag: UnknownName}
}

// newName is the same of a name that is sent.
func (d *Decoder) newName(name text) (entry, error) {
	e := entry{tag: d.names.find(name), name: name.least()}
	if !d.all {
		return e, nil
	}
	if !name.coded {
		d.keepName(name.bytes)
		return e, nil
	}
	var ok bool
	if d.name, ok = appendDecoded(d.name[:0], name.bytes); !ok {
		return e, ErrInvalid
	}
	e.name = len(d.name)
	return e, nil
}

// keepName keeps a name that is to be reported: where it is in the table, it may be evicted before.
func (d *Decoder) keepName(name []byte) {
	if d.all {
		d.name = append(d.name[:0], name...)
	}
}

// reportLiteral reports a field and adds it to the table.
func (d *Decoder) reportLiteral(e entry, value text, added bool) error {
	d.skip = value.missing
	var decoded []byte
	e.size = entryOverhead + e.name + value.least()
	if d.reads(e.tag) && value.missing == 0 {
		var err error
		if decoded, err = d.decode(value); err != nil {
			return err
		}
		e.known, e.size = true, entryOverhead+e.name+len(decoded)
	}
	d.report(e.tag, e.known, d.name, decoded)
	if added {
		d.table.add(e, d.name, decoded)
	}
	return nil
}

// text is a name or value as it was sent.
type text struct {
	bytes   []byte
	coded   bool   // by Huffman's code
	missing uint64 // bytes that are passed over, as there are too many
}

// least is how many bytes it has when decoded, at least: no code is longer than 30 bits.
func (t text) least() int {
	if t.coded {
		return len(t.bytes) * 8 / 30
	}
	return len(t.bytes)
}

// text reads a name or value and returns how many bytes it took: 0 where they do not hold all of it.
func (d *Decoder) text(b []byte) (text, int, error) {
	length, n, err := integer(b, 7)
	if n == 0 {
		return text{}, 0, err
	}
	t := text{coded: b[0]&0x80 != 0}
	switch {
	case length > uint64(d.limits.Text):
		t.missing = length
		return t, n, nil
	case length > uint64(len(b)-n):
		return t, 0, nil
	}
	t.bytes = b[n : n+int(length)]
	return t, n + int(length), nil
}

// decode returns the bytes that a text stands for, valid until it is called again.
func (d *Decoder) decode(t text) ([]byte, error) {
	if !t.coded {
		return t.bytes, nil
	}
	var ok bool
	if d.decoded, ok = appendDecoded(d.decoded[:0], t.bytes); !ok {
		return nil, ErrInvalid
	}
	return d.decoded, nil
}

// integer reads a number whose first bits are in the first byte: RFC 7541, section 5.1. It returns how many bytes it took: 0 where they
// do not hold all of it. No number has more than 35 bits.
func integer(b []byte, bits uint) (value uint64, taken int, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	most := uint64(1)<<bits - 1
	value = uint64(b[0]) & most
	if value < most {
		return value, 1, nil
	}
	const longest = 5
	for i, c := range b[1:] {
		if i == longest {
			return 0, 0, ErrInvalid
		}
		value += uint64(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return value, i + 2, nil
		}
	}
	if len(b) > longest {
		return 0, 0, ErrInvalid
	}
	return 0, 0, nil
}
