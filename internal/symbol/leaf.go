// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// standing is what is known of the stack at an address in a function.
type standing uint8

const (
	// framed: the return address is not at the top of the stack, or nobody knows.
	framed standing = iota
	// unsure: nothing was seen that moves the stack, but not all was seen.
	unsure
	// bare: no instruction before the address moves the stack.
	bare
	// exact: the function's tables say that the stack was not moved.
	exact
)

// leaf is what is known of an address as that of the innermost function.
type leaf struct {
	start    uint64 // of the function
	standing standing
}

// leafAt finds out how the stack stands at an address of an open binary.
func (s *Symbolizer) leafAt(b *binary, addr uint64) (leaf, error) {
	if t := s.goTable(b); t != nil && t.Covers(addr) {
		return s.leafGo(b, t, addr)
	}
	fn, ok, err := s.functionAt(b, addr)
	if !ok || err != nil {
		return leaf{}, err
	}
	l := leaf{start: fn.Start, standing: bare}
	stop, err := s.walk(b, fn.Start, min(addr, fn.Start+maxWalk), func(_ uint64, in inst) bool {
		if in.frame {
			l.standing = framed
		}
		return !in.frame
	})
	switch {
	case stop > addr && err == nil:
		l.standing = framed // no instruction begins at addr
	case l.standing == bare && stop < addr:
		l.standing = unsure
	}
	return l, err
}

// leafGo takes the distance of the stack pointer from the return address from
// the table that Go's own unwinder uses. Functions that switch stacks are
// marked in it.
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

// functionAt gives the extent of the function of a symbol table that holds an
// address. Those parts that compilers move out of functions as unlikely are no
// functions: they begin with the frame of the whole.
func (s *Symbolizer) functionAt(b *binary, addr uint64) (fn elfimage.Span, ok bool, err error) {
	t, _ := s.symTable(b)
	if t == nil {
		return elfimage.Span{}, false, nil
	}
	sym := t.find(addr)
	if sym == nil {
		return elfimage.Span{}, false, nil
	}
	off, limit := t.nameAt(sym.name)
	name, err := elfimage.ReadText(s.reader(b), off, int(min(limit, maxName)))
	if err != nil {
		return elfimage.Span{}, false, fmt.Errorf("reading a symbol name at %#x: %w", off, err)
	}
	if strings.HasSuffix(name, ".cold") || strings.Contains(name, ".cold.") {
		return elfimage.Span{}, false, nil
	}
	start := t.base + uint64(sym.addr)
	return elfimage.Span{Start: start, End: start + uint64(sym.size)}, true, nil
}
