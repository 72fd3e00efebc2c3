// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/disasm"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// standing is what is known of the stack at an address in a function.
type standing uint8

const (
	// framed: the return address is not at the top of the stack, or it is unknown.
	framed standing = iota
	// unsure: no decoded instruction moves the stack, but not all were decoded.
	unsure
	// bare: no instruction before the address moves the stack.
	bare
	// exact: by the function's tables the stack was not moved.
	exact
)

// leaf is what is known of an address in the innermost function.
type leaf struct {
	start    uint64 // of the function
	standing standing
}

// leafAt finds out the state of the stack at an address of an open binary.
func (s *Symbolizer) leafAt(b *binary, addr uint64) (leaf, error) {
	if err := s.tablesFor(b, wantedName{addr: addr}); err != nil {
		return leaf{}, err
	}
	if t := b.golang.table; t != nil && t.Covers(addr) {
		return s.leafGo(b, t, addr)
	}
	fn, ok, err := s.functionAt(b, addr)
	if !ok || err != nil {
		return leaf{}, err
	}
	l := leaf{start: fn.Start, standing: bare}
	stop, err := s.walk(b, fn.Start, min(addr, fn.Start+maxWalk), func(_ uint64, in disasm.Instruction) bool {
		if in.MovesStack {
			l.standing = framed
		}
		return !in.MovesStack
	})
	switch {
	case stop > addr && err == nil:
		l.standing = framed // no instruction begins at addr
	case l.standing == bare && stop < addr:
		l.standing = unsure
	}
	return l, err
}

// leafGo takes the distance of the stack pointer from the return address from the table that Go's own unwinder uses. Functions that switch
// stacks are marked in it.
func (s *Symbolizer) leafGo(b *binary, t *elfimage.GoTable, addr uint64) (leaf, error) {
	r := s.reader(b)
	info, err := t.Info(r, t.Find(addr))
	if err != nil {
		return leaf{}, fmt.Errorf("reading the Go function at %#x: %w", addr, err)
	}
	l := leaf{start: info.Entry}
	if info.Flags&elfimage.GoWritesSP != 0 {
		return l, nil
	}
	distance, err := t.Value(r, info.PCSP, info, addr)
	if err != nil {
		return l, fmt.Errorf("reading the stack size of the Go function at %#x: %w", addr, err)
	}
	if distance == 0 {
		l.standing = exact
	}
	return l, nil
}

// functionAt returns the extent of the function of a symbol table that contains an address. The parts that compilers split off as unlikely
// are no functions: they begin with the frame of the whole.
func (s *Symbolizer) functionAt(b *binary, addr uint64) (fn elfimage.Span, ok bool, err error) {
	if err := s.tablesFor(b, wantedName{addr: addr}); err != nil {
		return elfimage.Span{}, false, err
	}
	t := b.symbols.table
	if t == nil {
		return elfimage.Span{}, false, nil
	}
	sym := t.Find(addr)
	if sym == nil {
		return elfimage.Span{}, false, nil
	}
	off, limit := t.NameAt(sym.Name)
	name, err := elfimage.ReadText(s.reader(b), off, int(min(limit, elfsym.MaxName)))
	if err != nil {
		return elfimage.Span{}, false, fmt.Errorf("reading a symbol name at %#x: %w", off, err)
	}
	if strings.HasSuffix(name, ".cold") || strings.Contains(name, ".cold.") {
		return elfimage.Span{}, false, nil
	}
	start := t.Base + uint64(sym.Addr)
	return elfimage.Span{Start: start, End: start + uint64(sym.Size)}, true, nil
}
