// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	enc "encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Bounds of what is kept of one binary.
const (
	maxKnown          = 1 << 15 // addresses
	maxKnownFunctions = 1 << 16
	maxKnownTexts     = 1 << 17
)

// Known has results about addresses of one binary.
type Known struct {
	origin    string // of the binary
	lines     map[uint64][]Line
	functions map[Function]*Function // one value for each
	texts     map[string]string      // likewise
	bytes     int64
	changed   int
}

// NewKnown makes an empty Known. The origin identifies the file that the addresses are of.
func NewKnown(origin string) *Known {
	return &Known{origin: origin, lines: make(map[uint64][]Line), functions: make(map[Function]*Function), texts: make(map[string]string)}
}

// Lines returns what is known of an address.
func (k *Known) Lines(addr uint64) ([]Line, bool) {
	lines, ok := k.lines[addr]
	return lines, ok
}

// Put keeps the lines of an address, unless there are too many.
func (k *Known) Put(addr uint64, lines []Line) {
	if _, known := k.lines[addr]; known || len(k.lines) == maxKnown || len(lines) == 0 || len(lines) > maxDepth {
		return
	}
	if len(k.functions)+len(lines) > maxKnownFunctions || len(k.texts)+4*len(lines) > maxKnownTexts {
		return
	}
	own := make([]Line, len(lines))
	for i, l := range lines {
		own[i] = Line{k.function(l.Function), k.text(l.File), l.Line}
	}
	k.lines[addr] = own
	k.bytes += 64 + 32*int64(len(own))
	k.changed++
}

func (k *Known) function(f *Function) *Function {
	if f == nil {
		return nil
	}
	if known := k.functions[*f]; known != nil {
		return known
	}
	own := &Function{k.text(f.Name), k.text(f.Linkage), k.text(f.File), f.Line}
	k.functions[*own] = own
	k.bytes += 192
	return own
}

func (k *Known) text(s string) string {
	if known, ok := k.texts[s]; ok {
		return known
	}
	k.texts[s] = s
	k.bytes += 48 + int64(len(s))
	return s
}

// Changed is the number of addresses that were put since it was loaded or stored.
func (k *Known) Changed() int { return k.changed }

// Bytes is the memory in use.
func (k *Known) Bytes() int64 { return k.bytes }

// encode writes the origin, texts, functions and addresses, each list with its length first; all numbers are varints.
func (k *Known) encode() []byte {
	b := append(enc.AppendUvarint(nil, uint64(len(k.origin))), k.origin...)
	texts := slices.Sorted(maps.Keys(k.texts))
	text := make(map[string]uint64, len(texts))
	b = enc.AppendUvarint(b, uint64(len(texts)))
	for i, s := range texts {
		text[s] = uint64(i)
		b = append(enc.AppendUvarint(b, uint64(len(s))), s...)
	}
	function := make(map[*Function]uint64, len(k.functions))
	b = enc.AppendUvarint(b, uint64(len(k.functions)))
	for _, f := range k.functions {
		function[f] = uint64(len(function) + 1)
		for _, v := range []uint64{text[f.Name], text[f.Linkage], text[f.File], uint64(f.Line)} {
			b = enc.AppendUvarint(b, v)
		}
	}
	b = enc.AppendUvarint(b, uint64(len(k.lines)))
	last := uint64(0)
	for _, addr := range slices.Sorted(maps.Keys(k.lines)) {
		b = enc.AppendUvarint(b, addr-last)
		last = addr
		b = enc.AppendUvarint(b, uint64(len(k.lines[addr])))
		for _, l := range k.lines[addr] {
			for _, v := range []uint64{function[l.Function], text[l.File], uint64(l.Line)} {
				b = enc.AppendUvarint(b, v)
			}
		}
	}
	return sealed(b)
}

// knownReader reads what encode wrote.
type knownReader struct {
	b   []byte
	bad bool
}

func (r *knownReader) number(below uint64) uint64 {
	v, n := enc.Uvarint(r.b)
	if n <= 0 || v >= below {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// text reads a text with its length first.
func (r *knownReader) text() string {
	n := r.number(uint64(len(r.b)))
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	text := string(r.b[:n])
	r.b = r.b[n:]
	return text
}

// count reads a length of a list, whose entries have at least so many bytes each.
func (r *knownReader) count(each, limit int) int {
	return int(r.number(uint64(min(len(r.b)/each, limit)) + 1)) //nolint:gosec // at most the length of b
}

func decodeKnown(b []byte) (*Known, error) {
	content, err := unsealed(b)
	if err != nil {
		return nil, err
	}
	r := knownReader{b: content}
	k := NewKnown(r.text())
	texts := make([]string, r.count(1, maxKnownTexts))
	for i := range texts {
		if texts[i] = k.text(r.text()); r.bad {
			break
		}
	}
	text := func() string {
		if i := r.number(uint64(len(texts))); !r.bad {
			return texts[i]
		}
		return ""
	}
	functions := make([]*Function, r.count(4, maxKnownFunctions))
	for i := range functions {
		functions[i] = k.function(&Function{text(), text(), text(), uint32(r.number(1 << 32))})
	}
	addr := uint64(0)
	for range r.count(2, maxKnown) {
		addr += r.number(math.MaxUint64)
		lines := make([]Line, r.count(3, maxDepth))
		for i := range lines {
			if f := r.number(uint64(len(functions)) + 1); f > 0 {
				lines[i].Function = functions[f-1]
			}
			lines[i].File, lines[i].Line = text(), uint32(r.number(1<<32))
		}
		if r.bad {
			break
		}
		k.Put(addr, lines)
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("content: %w", ErrCache)
	}
	k.changed = 0
	return k, nil
}
