// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// ErrNone is the cause when a binary has no unwind information.
var ErrNone = errors.New("no unwind information")

// ErrDamaged is the cause when none of a binary's unwind information can be used.
var ErrDamaged = errors.New("unwind information that cannot be used")

// ErrTooLarge is the cause when a table would exceed its limits.
var ErrTooLarge = errors.New("exceeds the limit")

// ErrStopped is the cause when [Limits.Stop] ended the work.
var ErrStopped = errors.New("stopped")

// stopEvery is after how many functions Stop is called: within some milliseconds.
const stopEvery = 1 << 12

// Limits bound what one table takes. A zero field has its default.
type Limits struct {
	Rows int    // rows, of 4 bytes each; default 10 million
	Text uint64 // bytes from the first to the last address of code; default 2 GiB
	// Reserve is called before memory is allocated while the table is built, also for the table itself, and with a negative number when it is
	// freed. The table itself remains counted. Its error ends the work; nil: memory is not bounded.
	Reserve func(bytes int64) error
	// Stop is called from time to time and reports whether to stop; nil: never.
	Stop func() bool
}

func (l Limits) withDefaults() Limits {
	if l.Rows == 0 {
		l.Rows = 10_000_000
	}
	if l.Text == 0 {
		l.Text = 2 << 30
	}
	if l.Reserve == nil {
		l.Reserve = func(int64) error { return nil }
	}
	return l
}

// source is the precedence of a function's source, the best first.
type source uint8

// function is a range of code and where its rules are, 16 bytes.
type function struct {
	start, size uint32 // from the table's start
	ref         uint32 // the source's own reference to it
	from        source
}

// emitter puts the rules of one function of a source into a table, in
// ascending ranges.
type emitter interface {
	emit(ref uint32, p *packer) error
}

// builder collects the functions of all sources of one binary.
type builder struct {
	table     *Table
	text      []elfimage.Span // executable segments, sorted
	functions []function
	sources   []emitter // by source
	kinds     []Source
	memory    *memory
}

// Build makes the table of a binary. More images are separate debug files of it. The error is that of the whole; errors in parts are in the
// table. ErrNone, ErrDamaged, ErrTooLarge, ErrUnsupported and those of elfimage are causes.
func Build(img elfimage.Image, limits Limits, debug ...elfimage.Image) (table *Table, err error) {
	f, err := elfimage.Parse(img)
	if err != nil {
		return nil, fmt.Errorf("reading the ELF header: %w", err)
	}
	a, err := archOf(f.Machine, f.Is64)
	if err != nil {
		return nil, err
	}
	limits = limits.withDefaults()
	b := &builder{table: &Table{}, memory: &memory{reserve: limits.Reserve}}
	defer func() { b.memory.keep(table) }()
	if err := b.span(f, limits); err != nil {
		return nil, err
	}
	b.open(f, a, debug)
	if b.memory.err != nil {
		return nil, b.memory.err
	}
	if len(b.functions) == 0 {
		if b.table.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, b.table.Err)
		}
		return nil, ErrNone
	}
	if err := b.pack(limits); err != nil {
		return nil, err // pages have no rows yet
	}
	return b.table, nil
}

// span finds the range of the code.
func (b *builder) span(f *elfimage.File, limits Limits) error {
	b.text = f.Executable(nil)
	if len(b.text) == 0 {
		return fmt.Errorf("no executable segment: %w", ErrNone)
	}
	slices.SortFunc(b.text, func(x, y elfimage.Span) int { return cmp.Compare(x.Start, y.Start) })
	t := b.table
	t.Start, t.End = b.text[0].Start&^(PageBytes-1), 0
	for _, s := range b.text {
		t.End = max(t.End, s.End)
		t.Code += s.End - s.Start
	}
	if t.End-t.Start > min(limits.Text, 1<<32-PageBytes) {
		return fmt.Errorf("code from %#x to %#x: %w", t.Start, t.End, ErrTooLarge)
	}
	pages := (t.End - t.Start + PageBytes - 1) >> pageShift
	if !b.memory.hold(int64(pages) * pageEntryBytes) { //nolint:gosec // below 1 << 22
		return b.memory.err
	}
	t.Pages = make([]Page, pages)
	return nil
}

// add records a function, if it is in a segment of code.
func (b *builder) add(start, end uint64, ref uint32, from source) {
	if len(b.functions) == maxFuncs {
		b.skip(fmt.Errorf("%d functions: %w", maxFuncs, errTooMany))
		return
	}
	for _, s := range b.text {
		if s.Contains(start) && end > start {
			if !b.grow() {
				return
			}
			size := min(end, s.End) - start
			b.functions = append(b.functions, function{uint32(start - b.table.Start), uint32(size), ref, from})
			b.table.Covered += size
			return
		}
	}
}

// grow allocates space for one more function; false if no memory is left.
func (b *builder) grow() bool {
	have := cap(b.functions)
	if len(b.functions) < have {
		return true
	}
	more := max(minFunctions, have+have/2)
	if !b.memory.hold(int64(more) * functionBytes) {
		return false
	}
	functions := make([]function, len(b.functions), more)
	copy(functions, b.functions)
	b.functions = functions
	b.memory.drop(int64(have) * functionBytes)
	return true
}

// skip counts something that is left out.
func (b *builder) skip(err error) { b.table.skip(err) }

func (t *Table) skip(err error) {
	t.Skipped++
	if t.Err == nil {
		t.Err = err
	}
}

// pack emits the rules of the functions in the order of their addresses.
func (b *builder) pack(limits Limits) error {
	slices.SortFunc(b.functions, func(x, y function) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.from, y.from), cmp.Compare(x.ref, y.ref))
	})
	p := newPacker(b.table, limits.Rows)
	p.memory = b.memory
	for i := range b.functions {
		if i%stopEvery == 0 && limits.Stop != nil && limits.Stop() {
			return ErrStopped
		}
		if err := b.emit(i, p); err != nil {
			b.skip(err)
		}
		if err := b.memory.refused(); err != nil {
			return err
		}
		if p.tooMany() {
			return fmt.Errorf("more than %d rows: %w", limits.Rows, ErrTooLarge)
		}
	}
	b.memory.drop(int64(cap(b.functions)) * functionBytes)
	b.functions = nil
	p.finish()
	return b.memory.refused()
}

// emit emits the rules of the i-th function. If functions overlap, the one of the better source has the common range, or within one source
// the later one. The rest of a function behind another that begins within it is left out.
func (b *builder) emit(i int, p *packer) error {
	f := b.functions[i]
	start := b.table.Start + uint64(f.start)
	end := start + uint64(f.size)
	for _, next := range b.functions[i+1:] {
		at := b.table.Start + uint64(next.start)
		if at >= end {
			break
		}
		if next.from <= f.from {
			end = at
			break
		}
	}
	if start = max(start, p.pos); start >= end {
		return nil
	}
	b.table.Functions++
	b.table.Sources |= b.kinds[f.from]
	p.from, p.to = start, end
	return b.sources[f.from].emit(f.ref, p)
}
