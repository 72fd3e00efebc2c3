// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/codemap"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// Function keys of compiled code: the offset of its record.
const (
	keyMap  = 1 << 60
	keyDump = 1 << 61
)

// describe gives a frame its type, function and line, as a file lists them.
func (s *Symbolizer) describe(a *AddressSpace, e *entry, span *codemap.Span, file *codemap.File) error {
	if file.Src == nil {
		s.discover(a)
	}
	key := span.At | keyMap
	if file == a.jit.dump {
		key = span.At | keyDump
	}
	f, err := s.compiledFunction(a, key, span, file)
	if err != nil {
		return err
	}
	parsed := codemap.ParseName(f.SystemName, a.jit.runtime.kind)
	e.frame.Type = parsed.Kind
	e.function, e.line[0].Function = key, f
	e.frame.Lines = e.line[:]
	if file.Src == nil {
		return nil
	}
	src, format := file.Src, file.Format
	s.hold(src)
	defer s.release(src)
	var source string
	var line int64
	s.mu.outside(func() { source, line, err = format.Line(src, span, e.frame.Address, parsed.Kind == model.FrameV8) })
	if err != nil {
		return reason.New(reason.BadCodeMap, fmt.Errorf("reading the lines of %s in %s: %w", f.Name, file.Path, err))
	}
	if source != "" && f.Filename == "" {
		f = &model.Function{Name: f.Name, SystemName: f.SystemName, Filename: source, StartLine: f.StartLine}
		e.line[0].Function = f
	}
	if source == f.Filename { // else it is of an inlined function
		e.line[0].Line = line
	}
	return nil
}

// compiledFunction returns the function of a span, which is read on first use.
func (s *Symbolizer) compiledFunction(a *AddressSpace, key uint64, span *codemap.Span, file *codemap.File) (*model.Function, error) {
	b := a.jit.bin
	if f := b.frames.functionFor(key); f != nil {
		return f, nil
	}
	if file.Src == nil {
		return nil, reason.New(reason.NoFile, fmt.Errorf("reading a name in %s: it was closed and is not there any more", file.Path))
	}
	src, format := file.Src, file.Format
	s.hold(src)
	defer s.release(src)
	var system string
	var err error
	s.mu.outside(func() { system, err = format.Name(src, span) })
	if err == nil && system == "" {
		err = fmt.Errorf("an empty name at byte %d", span.At)
	}
	if err != nil {
		return nil, reason.New(reason.BadCodeMap, fmt.Errorf("reading a name in %s: %w", file.Path, err))
	}
	parsed := codemap.ParseName(system, a.jit.runtime.kind)
	f := &model.Function{Name: parsed.Name, SystemName: system, StartLine: parsed.Line}
	if parsed.File != "" {
		f.Filename = s.fileName(b, parsed.File)
	}
	if !s.closed && !a.closed {
		s.putFunction(b, key, f)
	}
	return f, nil
}
