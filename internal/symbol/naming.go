// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Function keys: the sources of one binary number their functions on their own.
const (
	keySymbol = 1 << 33
	keyGo     = 1 << 34
)

// resolve makes the frame of an address that is not in the cache.
func (s *Symbolizer) resolve(a *AddressSpace, r *region, addr uint64) *entry {
	s.count.misses++
	b := r.bin
	e := &entry{cause: b.cause}
	e.frame = model.Frame{Type: model.FrameNative, Mapping: r.mapping, Address: addr}
	if b.cause == anonymous && a != nil {
		if e.cause, e.frame.Type = a.jit.untold(); e.cause == notInCodeMap {
			s.await(a, addr, e)
		}
	}
	if b.cause == named {
		s.tick++
		b.used = s.tick
		e.cause = s.name(a, r, e)
		if e.function != 0 && e.frame.Lines == nil {
			e.frame.Lines = e.line[:]
		}
	}
	if s.closed || a != nil && a.closed {
		return e // nobody would ever drop it
	}
	if e.refused {
		return e // asked for again with the next sample
	}
	b.frames.put(addr, e)
	s.frameBytes += e.bytes()
	return e
}

// name fills the function of a frame, or says why there is none.
func (s *Symbolizer) name(a *AddressSpace, r *region, e *entry) cause {
	b := r.bin
	if err := s.reopen(a, r); err != nil {
		b.lost = true
		return s.failed(err)
	}
	if t := s.goTable(b); t != nil && t.Covers(e.frame.Address) {
		return s.nameGo(b, t, e)
	}
	t, why := s.symTable(b)
	start := uint64(0)
	if t != nil {
		if sym := t.findReturn(e.frame.Address); sym != nil {
			start = t.base + uint64(sym.addr)
			why = s.nameNative(b, t, sym, e)
		}
	}
	if why == named || why == noSymbol {
		s.askLines(a, b, e, start)
	}
	return why
}

// putFunction remembers a function of a binary.
func (s *Symbolizer) putFunction(b *binary, key uint64, f *model.Function) {
	b.frames.putFunction(key, f)
	s.frameBytes += costOf(f)
}

func (s *Symbolizer) reader(b *binary) elfimage.Reader {
	return reader{cache: s.pages, owner: b.serial, image: b.image()}
}

// nameNative names a frame by a symbol.
func (s *Symbolizer) nameNative(b *binary, t *symTable, sym *symbol, e *entry) cause {
	key := keySymbol | uint64(sym.name)
	f := b.frames.functionFor(key)
	if f == nil {
		off, limit := t.nameAt(sym.name)
		system, err := elfimage.ReadText(s.reader(b), off, int(min(limit, maxName)))
		if err != nil || system == "" {
			return s.failed(&reasonError{badELF, fmt.Errorf("reading a symbol name of %s at %#x: %w", b.path, off, orTruncated(err))})
		}
		readable, _ := demangled(system)
		f = &model.Function{Name: readable, SystemName: system}
		s.putFunction(b, key, f)
	}
	if isRust(f.SystemName) {
		e.frame.Type = model.FrameRust
	}
	e.function, e.line[0].Function = key, f
	return named
}

// nameGo takes names and lines from the pclntab. In an inlined call of a release
// before Go 1.20 there is no line: the table has the callee's, which would be
// wrong beside the caller's name.
func (s *Symbolizer) nameGo(b *binary, t *elfimage.GoTable, e *entry) cause {
	e.frame.Type = model.FrameGo
	i := t.Find(e.frame.Address)
	r := s.reader(b)
	info, err := t.Info(r, i)
	if err != nil {
		return s.badGo(b, e.frame.Address, err)
	}
	key := keyGo | uint64(i)
	f := b.frames.functionFor(key)
	if f == nil {
		before := b.frames.bytes()
		f, err = goFunction(t, r, info, &b.frames)
		s.frameBytes += b.frames.bytes() - before
		if err != nil {
			return s.badGo(b, e.frame.Address, err)
		}
		s.putFunction(b, key, f)
	}
	e.function, e.line[0].Function = key, f
	if inlined, err := t.Value(r, info.Inlined, info, e.frame.Address); err != nil {
		return named
	} else if inlined >= 0 {
		s.nameInlinedGo(b, goCall{t, r, info}, inlined, e)
		return named
	}
	if line, err := t.Value(r, info.PCLine, info, e.frame.Address); err == nil && line > 0 {
		e.line[0].Line = int64(line)
	}
	return named
}

// goFunction reads the name, the file and the first line of a function.
func goFunction(t *elfimage.GoTable, r elfimage.Reader, info elfimage.GoFunc, files *frameCache) (*model.Function, error) {
	name, err := t.Name(r, info)
	if err != nil || name == "" {
		return nil, orTruncated(err)
	}
	f := &model.Function{Name: name, SystemName: name, StartLine: int64(max(info.StartLine, 0))}
	// A function without a file, as some of the linker's own, still has a name.
	if number, err := t.Value(r, info.PCFile, info, info.Entry); err == nil {
		if file, err := t.Filename(r, info, number); err == nil && file != "" {
			f.Filename = files.fileName(file)
		}
	}
	return f, nil
}

func (s *Symbolizer) badGo(b *binary, addr uint64, err error) cause {
	return s.failed(&reasonError{badELF, fmt.Errorf("reading the Go function at %#x of %s: %w", addr, b.path, err)})
}

func orTruncated(err error) error {
	if err == nil {
		return elfimage.ErrTruncated
	}
	return err
}

// failed counts an error and gives its cause.
func (s *Symbolizer) failed(err error) cause {
	why := badELF
	var r *reasonError
	switch {
	case errors.Is(err, errNoAnswer):
		why = noAnswer
	case errors.As(err, &r):
		why = r.cause
	case errors.Is(err, errTooLarge):
		why = tooLarge
	}
	s.count.errors[why]++
	s.count.last = err
	switch why {
	case processExited:
	case notELF, notRegular: // part of any host's life
		s.logger.Debug("Addresses of a file will have no name", zap.Error(err))
	default:
		s.warnings.Warn(err)
	}
	return why
}
