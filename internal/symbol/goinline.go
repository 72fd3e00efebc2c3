// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// maxInlinedGo bounds the calls that were inlined into each other at one address.
const maxInlinedGo = 256

// goCall is a function of a Go binary that is being named.
type goCall struct {
	table *elfimage.GoTable
	r     elfimage.Reader
	info  elfimage.GoFunc
}

// nameInlinedGo puts the functions that were inlined at an address before the one that the frame has. Where the binary does not tell them
// the frame keeps its function, without a line.
func (s *Symbolizer) nameInlinedGo(b *binary, c goCall, index int32, e *entry) {
	if !b.golang.inline {
		b.golang.inline = true
		if f, sections, err := layout(b.image()); err == nil {
			c.table.ResolveInline(f, sections, s.scratch[:]) //nolint:errcheck // InlinedCall says it again
		}
	}
	lines := s.goLines[:0]
	keys := s.goKeys[:0]
	addr := e.frame.Address
	for index >= 0 && len(lines) < maxInlinedGo {
		call, err := c.table.InlinedCall(c.r, c.info, index)
		if err != nil {
			return
		}
		name, err := c.table.InlinedName(c.r, call)
		if err != nil || name == "" {
			return
		}
		file, line := c.place(addr)
		f, key := s.inlinedGo(b, name, file, int64(max(call.StartLine, 0)))
		lines, keys = append(lines, model.Line{Function: f, Line: line}), append(keys, key)
		addr = c.info.Entry + uint64(call.ParentPC)
		if index, err = c.table.Value(c.r, c.info.Inlined, c.info, addr); err != nil {
			return
		}
	}
	f, key := e.line[0].Function, e.function
	file, line := c.place(addr)
	if file != "" && file != f.Filename { // a package's init has parts in each of its files
		f, key = s.inlinedGo(b, f.Name, file, f.StartLine)
	}
	lines, keys = append(lines, model.Line{Function: f, Line: line}), append(keys, key)
	s.goLines, s.goKeys = lines[:0], keys[:0]
	e.frame.Lines = slices.Clone(lines)
	e.function, e.more = keys[0], slices.Clone(keys[1:])
}

// place gives the file and the line of an address, as far as they are known.
func (c goCall) place(addr uint64) (file string, line int64) {
	if number, err := c.table.Value(c.r, c.info.PCFile, c.info, addr); err == nil {
		file, _ = c.table.Filename(c.r, c.info, number) //nolint:errcheck // a place without a file still has a line
	}
	if n, err := c.table.Value(c.r, c.info.PCLine, c.info, addr); err == nil && n > 0 {
		line = int64(n)
	}
	return file, line
}

// inlinedGo gives a function that was inlined.
func (s *Symbolizer) inlinedGo(b *binary, name, file string, start int64) (*model.Function, uint64) {
	key := keyOf(name, file, start)
	if f := b.frames.functionFor(key); f != nil && f.SystemName == name {
		return f, key
	}
	before := b.frames.bytes()
	f := &model.Function{Name: name, SystemName: name, Filename: b.frames.fileName(file), StartLine: start}
	s.frameBytes += b.frames.bytes() - before
	s.putFunction(b, key, f)
	return f, key
}
