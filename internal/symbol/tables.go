// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// goTable returns the Go function table of a binary, which must be open; nil when it has none or a bad one.
func (s *Symbolizer) goTable(b *binary) *elfimage.GoTable {
	if b.golang.loaded {
		return b.golang.table
	}
	b.golang.loaded = true
	before := s.reserved
	defer func() { s.reserved = before }()
	t, err := s.buildGo(b)
	if err != nil {
		s.noGoTable(b, err)
		return nil
	}
	s.keep(b, func() { b.golang.table = t })
	return t
}

// noGoTable counts why a binary has no Go function table. If it did not fit into memory, it is read again later, when it may fit.
func (s *Symbolizer) noGoTable(b *binary, err error) {
	if errors.Is(err, elfsym.ErrNoRoom) {
		b.golang.noRoom = s.now()
		return
	}
	s.failed(fmt.Errorf("reading the pclntab of %s: %w", b.path, err))
}

func (s *Symbolizer) buildGo(b *binary) (*elfimage.GoTable, error) {
	f, sections, err := elfsym.Layout(b.image())
	if err != nil {
		return nil, err
	}
	return elfsym.BuildGo(f, sections, s.scratch[:], s.reserverFor(b))
}

// symTable returns the symbol table of a binary, which must be open, or why there is none.
func (s *Symbolizer) symTable(b *binary) (*elfsym.Table, reason.Cause) {
	if b.symbols.loaded {
		return b.symbols.table, reason.NoSymbol
	}
	b.symbols.loaded = true
	before := s.reserved
	defer func() { s.reserved = before }()
	t, err := s.buildSymbols(b)
	if err != nil {
		return nil, s.badSymbols(b, err)
	}
	s.keep(b, func() { b.symbols.table = t })
	return t, reason.NoSymbol
}

// badSymbols counts the error of a symbol table, and returns its cause.
func (s *Symbolizer) badSymbols(b *binary, err error) reason.Cause {
	why := s.failed(fmt.Errorf("reading the symbols of %s: %w", b.path, err))
	b.cause = why // final: the file will not get better
	if b.golang.table != nil {
		b.cause = reason.Named
	}
	return why
}

// errNotYet is the cause when the tables of a binary are being read.
var errNotYet = errors.New("the tables are not read yet")

// tablesFor has the tables of a binary, which must be open, read as far as an address needs them. It returns errNotYet if a lane reads them,
// and requests that for w.
func (s *Symbolizer) tablesFor(b *binary, w wantedName) error {
	if at := b.golang.noRoom; !at.IsZero() && s.now().Sub(at) >= idleTable {
		b.golang.loaded, b.golang.noRoom = false, time.Time{}
	}
	if b.knows(w.addr) {
		return nil
	}
	if _, ok := b.file.(interface{ again() (source, error) }); s.names == nil || !ok {
		if t := s.goTable(b); t == nil || !t.Covers(w.addr) {
			s.symTable(b) // errors are counted there
		}
		return nil
	}
	if !s.names.ask(b, w) {
		return errRefused
	}
	return errNotYet
}

// errRefused is the cause when too much waits to be read.
var errRefused = fmt.Errorf("too many frames wait for names: %w", errNotYet)

// knows reports whether the tables exist that an address needs.
func (b *binary) knows(addr uint64) bool {
	switch t := b.golang.table; {
	case !b.golang.loaded:
		return false
	case t != nil && t.Covers(addr):
		return true
	case !b.symbols.loaded:
		return false
	case b.symbols.table == nil:
		return true
	}
	_, known := b.symbols.table.LookupReturn(addr)
	return known
}

func (s *Symbolizer) buildSymbols(b *binary) (*elfsym.Table, error) {
	return elfsym.Build(b.image(), s.reader(b), s.scratch[:], s.reserverFor(b))
}

// keep accounts for a table that is put into a binary.
func (s *Symbolizer) keep(b *binary, put func()) {
	before := b.tableBytes()
	put()
	grown := b.tableBytes() - before
	s.tableBytes += grown
	if grown <= 0 {
		return
	}
	s.count.tablesBuilt++
	if !b.evicted.IsZero() && s.now().Sub(b.evicted) < thrashWithin {
		s.count.tablesRebuilt++
	}
	b.evicted = time.Time{}
}

// thrashWithin is the time after an eviction within which building a table again shows that there is too little memory.
const thrashWithin = time.Minute

// keepPartial adds what a pass has found to the partial table of a binary.
func (s *Symbolizer) keepPartial(b *binary, t *elfsym.Table) {
	s.count.partialPasses++
	b.failedPasses = 0
	b.symbols.loaded = true
	if t == nil {
		return
	}
	before := b.tableBytes()
	if old := b.symbols.table; old != nil && old.IsPartial && old.Bytes() < s.memory/partialShare && old.Base == t.Base {
		t.Merge(old)
	}
	b.symbols.table = t
	s.tableBytes += b.tableBytes() - before
}

// partialShare is the part of the memory that one partial table may take before its answers are dropped.
const partialShare = 32

// reserverFor frees and reserves memory for tables of one binary. A single one may take three quarters of the memory. The caller ends the
// reservation when the table is kept or dropped.
func (s *Symbolizer) reserverFor(b *binary) elfimage.Reserver {
	return func(entries int, each int64) error {
		if limit := s.memory / 4 * 3; int64(entries)*each > limit {
			return fmt.Errorf("table of %d functions, %d bytes: %w of %d for one binary", entries, int64(entries)*each, reason.ErrTooLarge, limit)
		}
		s.makeRoom(int64(entries)*each, b)
		s.reserved += int64(entries) * each
		return nil
	}
}

// dropTables frees the tables of a binary; they are built anew when needed.
func (s *Symbolizer) dropTables(b *binary) {
	s.tableBytes -= b.tableBytes()
	s.count.tablesEvicted++
	b.evicted = s.now()
	b.golang, b.symbols = goTables{}, symTables{}
}

// someFailed counts that addresses of a file exceed the memory bound, once for each file.
func (s *Symbolizer) someFailed(b *binary, err error) {
	if b.passFailed {
		return
	}
	b.passFailed = true
	s.failed(fmt.Errorf("reading some symbols of %s: %w", b.path, err))
}
