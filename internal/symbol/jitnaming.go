// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Function keys of compiled code: where the file tells of it.
const (
	keyMap  = 1 << 60
	keyDump = 1 << 61
)

// describe gives a frame its type, function and line, as a file tells them.
func (s *Symbolizer) describe(a *AddressSpace, e *entry, span *codeSpan, file *codeFile) error {
	if file.src == nil {
		s.discover(a)
	}
	key := span.at | keyMap
	if file == a.jit.dump {
		key = span.at | keyDump
	}
	f, err := s.compiledFunction(a, key, span, file)
	if err != nil {
		return err
	}
	told := compiledName(f.SystemName, a.jit.runtime.kind)
	e.frame.Type = told.kind
	e.function, e.line[0].Function = key, f
	e.frame.Lines = e.line[:]
	if file.src == nil {
		return nil
	}
	source, line, err := file.format.line(file.src, span, e.frame.Address, told.kind == model.FrameV8)
	if err != nil {
		return &reasonError{badCodeMap, fmt.Errorf("reading the lines of %s in %s: %w", f.Name, file.path, err)}
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

// compiledFunction gives the function of a span, which is read when it is first
// asked for.
func (s *Symbolizer) compiledFunction(a *AddressSpace, key uint64, span *codeSpan, file *codeFile) (*model.Function, error) {
	b := a.jit.bin
	if f := b.frames.functionFor(key); f != nil {
		return f, nil
	}
	if file.src == nil {
		return nil, &reasonError{noFile, fmt.Errorf("reading a name in %s: it was closed and is not there any more", file.path)}
	}
	system, err := file.format.name(file.src, span)
	if err == nil && system == "" {
		err = fmt.Errorf("an empty name at byte %d", span.at)
	}
	if err != nil {
		return nil, &reasonError{badCodeMap, fmt.Errorf("reading a name in %s: %w", file.path, err)}
	}
	told := compiledName(system, a.jit.runtime.kind)
	f := &model.Function{Name: told.name, SystemName: system, StartLine: told.line}
	if told.file != "" {
		f.Filename = b.frames.fileName(told.file)
	}
	if !s.closed && !a.closed {
		s.putFunction(b, key, f)
	}
	return f, nil
}
