// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// nameInlinedGo puts the functions that were inlined at an address before the one of the frame. If the binary does not have them, the frame
// keeps its function, without a line.
func (s *Symbolizer) nameInlinedGo(b *binary, c elfsym.GoCall, index int32, e *entry) {
	if of := b.tables(); !of.golang.inline {
		of.golang.inline = true
		if f, sections, err := elfsym.Layout(of.image()); err == nil {
			c.Table.ResolveInline(f, sections, s.scratch[:]) //nolint:errcheck // InlinedCall returns the error again
		}
	}
	var someLines [16]model.Line
	var someKeys [16]uint64
	lines, keys := someLines[:0], someKeys[:0]
	addr := e.frame.Address
	for index >= 0 && len(lines) < elfsym.MaxInlinedGo {
		call, err := c.Table.InlinedCall(c.Reader, c.Info, index)
		if err != nil {
			return
		}
		name, err := c.Table.InlinedName(c.Reader, call)
		if err != nil || name == "" {
			return
		}
		file, line := c.Place(addr)
		f, key := s.inlinedGo(b, name, file, int64(max(call.StartLine, 0)))
		lines, keys = append(lines, model.Line{Function: f, Line: line}), append(keys, key)
		addr = c.Info.Entry + uint64(call.ParentPC)
		if index, err = c.Table.Value(c.Reader, c.Info.Inlined, c.Info, addr); err != nil {
			return
		}
	}
	f, key := e.line[0].Function, e.function
	file, line := c.Place(addr)
	if file != "" && file != f.Filename { // a package's init has parts in each of its files
		f, key = s.inlinedGo(b, f.Name, file, f.StartLine)
	}
	lines, keys = append(lines, model.Line{Function: f, Line: line}), append(keys, key)
	e.frame.Lines = slices.Clone(lines)
	e.function, e.more = keys[0], slices.Clone(keys[1:])
}

// inlinedGo returns a function that was inlined.
func (s *Symbolizer) inlinedGo(b *binary, name, file string, start int64) (*model.Function, uint64) {
	key := keyOf(name, file, start)
	if f := b.frames.functionFor(key); f != nil && f.SystemName == name {
		return f, key
	}
	f := &model.Function{Name: name, SystemName: name, Filename: s.fileName(b, file), StartLine: start}
	s.putFunction(b, key, f)
	return f, key
}
