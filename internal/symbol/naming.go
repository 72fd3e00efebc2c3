// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// Function keys: each source of a binary numbers its functions on its own.
const (
	keySymbol = 1 << 33
	keyGo     = 1 << 34
)

// resolveIn makes the frame of an address that is not in the cache, of a region's binary or a view of it.
func (s *Symbolizer) resolveIn(b *binary, a *AddressSpace, r *region, addr uint64) *entry {
	s.count.misses++
	e := &entry{cause: b.cause}
	e.frame = model.Frame{Type: model.FrameNative, Mapping: r.mapping, Address: addr}
	if b.cause == reason.Anonymous && a != nil {
		if e.cause, e.frame.Type = a.jit.unlisted(); e.cause == reason.NotInCodeMap {
			s.await(a, addr, e)
		}
	}
	if b.cause == reason.Named {
		s.tick++
		b.used, r.bin.used = s.tick, s.tick
		e.cause = s.name(b, a, r, e)
		if e.function != 0 && e.frame.Lines == nil {
			e.frame.Lines = e.line[:]
		}
	}
	if s.closed || a != nil && a.closed {
		return e // it would never be dropped
	}
	if e.refused {
		return e // requested again with the next sample
	}
	s.putFrame(b, addr, e)
	return e
}

// putFrame caches a frame of a binary, unless that was dropped while its file was read.
func (s *Symbolizer) putFrame(b *binary, addr uint64, e *entry) {
	if _, known := s.all[b]; !known {
		return
	}
	before := b.frames.bytes()
	b.frames.put(addr, e)
	s.frameBytes += b.frames.bytes() - before
}

// replaceFrame replaces a frame by another of the same address, if it is still cached.
func (s *Symbolizer) replaceFrame(b *binary, old, e *entry) bool {
	before := b.frames.bytes()
	replaced := b.frames.replace(old, e)
	s.frameBytes += b.frames.bytes() - before
	return replaced
}

// name returns the function of a frame, or the reason why there is none, which may be that its tables are not read yet.
func (s *Symbolizer) name(b *binary, a *AddressSpace, r *region, e *entry) reason.Cause {
	if err := s.reopen(a, r); err != nil {
		r.bin.lost = true
		return s.failed(err)
	}
	w := wantedName{a: a, at: r, frames: b, e: e, addr: e.frame.Address, pc: e.frame.Address - r.delta}
	switch s.tablesFor(r.bin, w) {
	case errNotYet:
		e.pending, e.frame.Late = true, new(atomic.Pointer[model.Frame])
		return reason.OverBudget
	case errRefused:
		e.refused = true
		return reason.OverBudget
	}
	if r.bin.cause != reason.Named {
		return r.bin.cause // its tables could not be read
	}
	return s.nameByTables(w, e)
}

// nameByTables returns the function of a frame by the tables of its binary, which is open.
func (s *Symbolizer) nameByTables(w wantedName, e *entry) reason.Cause {
	b, of := w.frames, w.frames.tables()
	src := of.opened()
	s.hold(src)
	defer s.release(src)
	of.needed = s.now()
	if t := of.golang.table; t != nil && t.Covers(e.frame.Address) {
		return s.nameGo(b, t, e)
	}
	why, start := reason.NoSymbol, uint64(0)
	if t := of.symbols.table; t != nil {
		sym, known := t.LookupReturn(e.frame.Address)
		switch {
		case !known:
			why = reason.TooLarge
		case sym != nil:
			start = t.Base + uint64(sym.Addr)
			why = s.nameNative(b, t, sym, e)
		}
	}
	if why == reason.NoSymbol && !of.golang.noRoom.IsZero() {
		e.refused = true // it is requested again
		return reason.OverBudget
	}
	if why == reason.Named || why == reason.NoSymbol {
		s.askLines(w.a, b, w.at, e, start)
	}
	return why
}

// settleName gives a waiting frame the name that is known now. The binary is open.
func (s *Symbolizer) settleName(b *binary, w wantedName) {
	old := w.e
	if old == nil {
		return
	}
	delete(s.names.pending, old)
	old.pending = false
	if _, known := s.all[w.frames]; !known || b.cause == reason.Named && !b.knows(w.addr) && (!b.golang.loaded || !b.symbols.loaded) {
		s.names.giveUp(w) // its tables have been dropped since
		return
	}
	e := s.renamed(b, w)
	if listed := s.compiledInstead(w, e); listed != nil {
		old.frame.Late.Store(&listed.frame)
		s.replaceFrame(w.frames, old, e)
		s.count.frames[listed.cause] += uint64(old.unsettled)
		old.unsettled = 0
		return
	}
	if e.refused {
		s.removeFrame(w.frames, old)
	} else {
		s.replaceFrame(w.frames, old, e)
	}
	if e.pending {
		e.frame.Late = old.frame.Late // where its lines will be set, too
	}
	old.frame.Late.Store(&e.frame)
	if e.pending && e.cause != reason.Named {
		e.unsettled += old.unsettled
	} else {
		s.count.frames[e.cause] += uint64(old.unsettled)
	}
	old.unsettled = 0
}

// renamed makes the frame of an address anew, now that the tables are there.
func (s *Symbolizer) renamed(b *binary, w wantedName) *entry {
	e := &entry{cause: b.cause}
	e.frame = model.Frame{Type: model.FrameNative, Mapping: w.e.frame.Mapping, Address: w.addr}
	if b.cause == reason.Named {
		e.cause = s.nameByTables(w, e)
	}
	if e.function != 0 && e.frame.Lines == nil {
		e.frame.Lines = e.line[:]
	}
	return e
}

// compiledInstead returns the frame of an address without a symbol if the process lists it as compiled code.
func (s *Symbolizer) compiledInstead(w wantedName, e *entry) *entry {
	if e.cause != reason.NoSymbol || e.pending || w.a == nil || w.a.closed {
		return nil
	}
	return s.compiled(w.a, w.pc)
}

// removeFrame drops a frame, which will be requested again.
func (s *Symbolizer) removeFrame(b *binary, e *entry) {
	s.frameBytes -= b.frames.bytes()
	b.frames.remove(e)
	s.frameBytes += b.frames.bytes()
}

// fileName gives all functions of one source file the same string. A binary that is not held any more is not charged.
func (s *Symbolizer) fileName(b *binary, name string) string {
	if _, known := s.all[b]; !known || name == "" {
		return name
	}
	before := b.frames.bytes()
	name = b.frames.fileName(name)
	s.frameBytes += b.frames.bytes() - before
	return name
}

// putFunction caches a function of a binary, unless that was dropped while its file was read.
func (s *Symbolizer) putFunction(b *binary, key uint64, f *model.Function) {
	if _, known := s.all[b]; !known {
		return
	}
	before := b.frames.bytes()
	b.frames.putFunction(key, f)
	s.frameBytes += b.frames.bytes() - before
}

// reader reads the file of a binary, which is open and held, through the cache of pages. It releases the lock for that.
func (s *Symbolizer) reader(b *binary) elfimage.Reader {
	b = b.tables()
	r := elfsym.Reader{Cache: s.pages, Owner: b.serial, Image: b.image()}
	if _, memory := r.Image.Src.(memorySource); !memory {
		r.Held = &s.mu
	}
	return r
}

// nameNative names a frame by a symbol.
func (s *Symbolizer) nameNative(b *binary, t *elfsym.Table, sym *elfsym.Symbol, e *entry) reason.Cause {
	key := keySymbol | uint64(sym.Name)
	f := b.frames.functionFor(key)
	if f == nil {
		off, limit := t.NameAt(sym.Name)
		system, err := elfimage.ReadText(s.reader(b), off, int(min(limit, elfsym.MaxName)))
		if err != nil || system == "" {
			return s.failed(reason.New(reason.BadELF, fmt.Errorf("reading a symbol name of %s at %#x: %w", b.path, off, elfsym.OrTruncated(err))))
		}
		readable, _ := elfsym.Demangled(system)
		f = &model.Function{Name: readable, SystemName: system}
		s.putFunction(b, key, f)
	}
	if elfsym.IsRust(f.SystemName) {
		e.frame.Type = model.FrameRust
	}
	e.function, e.line[0].Function = key, f
	return reason.Named
}

// nameGo takes names and lines from the pclntab. In an inlined call of a release before Go 1.20 there is no line: the table has the callee's,
// which would be wrong with the caller's name.
func (s *Symbolizer) nameGo(b *binary, t *elfimage.GoTable, e *entry) reason.Cause {
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
		if f, err = goFunction(t, r, info); err != nil {
			return s.badGo(b, e.frame.Address, err)
		}
		f.Filename = s.fileName(b, f.Filename)
		s.putFunction(b, key, f)
	}
	e.function, e.line[0].Function = key, f
	if inlined, err := t.Value(r, info.Inlined, info, e.frame.Address); err != nil {
		return reason.Named
	} else if inlined >= 0 {
		s.nameInlinedGo(b, elfsym.GoCall{Table: t, Reader: r, Info: info}, inlined, e)
		return reason.Named
	}
	if line, err := t.Value(r, info.PCLine, info, e.frame.Address); err == nil && line > 0 {
		e.line[0].Line = int64(line)
	}
	return reason.Named
}

// goFunction reads the name, the file and the first line of a function.
func goFunction(t *elfimage.GoTable, r elfimage.Reader, info elfimage.GoFunc) (*model.Function, error) {
	name, err := t.Name(r, info)
	if err != nil || name == "" {
		return nil, elfsym.OrTruncated(err)
	}
	f := &model.Function{Name: name, SystemName: name, StartLine: int64(max(info.StartLine, 0))}
	// A function without a file, as some of the linker's own, still has a name.
	if number, err := t.Value(r, info.PCFile, info, info.Entry); err == nil {
		if file, err := t.Filename(r, info, number); err == nil && file != "" {
			f.Filename = file
		}
	}
	return f, nil
}

func (s *Symbolizer) badGo(b *binary, addr uint64, err error) reason.Cause {
	return s.failed(reason.New(reason.BadELF, fmt.Errorf("reading the Go function at %#x of %s: %w", addr, b.path, err)))
}

// failed counts an error and returns its cause.
func (s *Symbolizer) failed(err error) reason.Cause {
	why := reason.BadELF
	var r *reason.Error
	switch {
	case errors.Is(err, reason.ErrNoAnswer):
		why = reason.NoAnswer
	case errors.As(err, &r):
		why = r.Cause
	case errors.Is(err, reason.ErrTooLarge):
		why = reason.TooLarge
	}
	s.count.errors[why]++
	s.count.last = err
	switch why {
	case reason.ProcessExited:
	case reason.OverBudget: // mapsRead warns with the user
	case reason.NotELF, reason.NotRegular: // usual on any host
		s.logger.Debug("Addresses of a file will have no name", zap.Error(err))
	default:
		s.warnings.Warn(err)
	}
	return why
}

// maxFailedPasses bounds the successive batches of which no address is found. Each reads the whole file.
const maxFailedPasses = 3
