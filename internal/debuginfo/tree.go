// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	maxDepth     = 4096      // depth of nested entries
	maxUnitBytes = 512 << 20 // of one unit in .debug_info, which is read from its beginning to its end
	noScope      = math.MaxUint32
)

// scope is a function, or the body of one that was inlined.
type scope struct {
	parent   uint32 // the scope that it was inlined into, noScope of a function
	function uint32 // index of the function
	callFile uint32 // where it was inlined, numbers in the unit's line table
	callLine uint32
}

// scopeRow is the scope of the code from an address on.
type scopeRow struct {
	addr  uint32 // from the start of the text
	scope uint32 // or noScope
}

// extent is a range of code of a scope, while a unit is read.
type extent struct {
	low, high uint32
	scope     uint32
	depth     uint32 // in scopes
}

const (
	scopeBytes    = 16
	scopeRowBytes = 8
	extentBytes   = 16
)

// walker reads the entries of a unit and finds functions and what was inlined into them.
type walker struct {
	unit    *unit
	c       cursor
	text    elfimage.Span
	limit   int // scopes, and extents
	scopes  []scope
	extents []extent
	origins []uint64          // the functions' entries, see reference
	known   map[uint64]uint32 // index of each in origins
	open    []uint32          // for each open entry the scope that its children are in
	depths  []uint32          // for each scope its depth
}

// walk reads all entries of the unit.
func (w *walker) walk() error {
	u := w.unit
	if u.end-u.die > maxUnitBytes {
		return fmt.Errorf("unit at %s+%#x: %d bytes: %w of %d", u.obj.info.name, u.off, u.end-u.die, ErrTooLarge, maxUnitBytes)
	}
	abbrevs, err := u.obj.allAbbrevs(u)
	if err != nil {
		return err
	}
	w.known = make(map[uint64]uint32)
	current := uint32(noScope)
	for w.c.left() > 0 {
		off := w.c.offset()
		code := w.c.uleb()
		if code == 0 {
			if w.c.err != nil || len(w.open) == 0 {
				break
			}
			current = w.open[len(w.open)-1]
			w.open = w.open[:len(w.open)-1]
			continue
		}
		a := abbrevs.find(code)
		if a == nil {
			return fmt.Errorf("%s+%#x: %d: %w", u.obj.info.name, off, code, errNoAbbrev)
		}
		inner := current
		if a.tag == tagSubprogram || a.tag == tagInlined {
			if inner, err = w.function(a, off, current); err != nil {
				return err
			}
		} else {
			a.pass(&w.c, u.encoding)
		}
		if a.children {
			if len(w.open) == maxDepth {
				return fmt.Errorf("%s+%#x: entries nested deeper than %d: %w", u.obj.info.name, off, maxDepth, ErrTooLarge)
			}
			w.open = append(w.open, current)
			current = inner
		} else if len(w.open) == 0 {
			break // the unit's own entry, without children
		}
	}
	return w.c.err
}

// function reads a function, or the body of an inlined one, and returns the scope of its children.
func (w *walker) function(a *abbrev, off uint64, outer uint32) (uint32, error) {
	var e entry
	a.read(&w.c, w.unit.encoding, &e)
	if w.c.err != nil {
		return noScope, w.c.err
	}
	s := scope{parent: noScope}
	depth := uint32(0)
	if a.tag == tagInlined {
		if outer == noScope {
			return noScope, nil // a body of no function
		}
		s.parent, depth = outer, w.depths[outer]+1
		s.callFile, s.callLine = e.callFile.number(), e.callLine.number()
	}
	index, before := uint32(len(w.scopes)), len(w.extents)
	err := w.unit.eachRange(&e, func(low, high uint64) error {
		if low < w.text.Start || high > w.text.End || low >= high || low-w.text.Start > math.MaxUint32 {
			return nil // dropped by the linker
		}
		if len(w.extents) == w.limit {
			return fmt.Errorf("unit at %s+%#x: %d ranges: %w", w.unit.obj.info.name, w.unit.off, w.limit, ErrTooLarge)
		}
		high = min(high-w.text.Start, math.MaxUint32)
		w.extents = append(w.extents, extent{uint32(low - w.text.Start), uint32(high), index, depth})
		return nil
	})
	if err != nil {
		return noScope, err
	}
	if len(w.extents) == before && a.tag == tagSubprogram {
		return noScope, nil // a declaration, or the abstract instance of an inlined function
	}
	if len(w.scopes) == w.limit {
		return noScope, fmt.Errorf("unit at %s+%#x: %d functions: %w", w.unit.obj.info.name, w.unit.off, w.limit, ErrTooLarge)
	}
	// A body without code of its own may have others inlined into it.
	if a.tag == tagInlined && e.origin.ok() {
		off = w.unit.reference(e.origin, off)
	}
	s.function = w.functionAt(off)
	w.scopes = append(w.scopes, s)
	w.depths = append(w.depths, depth)
	return index, nil
}

func (w *walker) functionAt(ref uint64) uint32 {
	if i, ok := w.known[ref]; ok {
		return i
	}
	i := uint32(len(w.origins))
	w.known[ref] = i
	w.origins = append(w.origins, ref)
	return i
}

// scopeRows turns nested ranges into a sorted list of where the innermost scope changes.
func (w *walker) scopeRows() []scopeRow {
	slices.SortFunc(w.extents, func(x, y extent) int {
		if c := cmp.Compare(x.low, y.low); c != 0 {
			return c
		}
		if c := cmp.Compare(x.depth, y.depth); c != 0 {
			return c
		}
		return cmp.Compare(y.high, x.high)
	})
	out := make([]scopeRow, 0, 2*len(w.extents))
	put := func(addr, scope uint32) {
		if n := len(out); n > 0 && out[n-1].addr == addr {
			out[n-1].scope = scope
			return
		} else if n > 0 && out[n-1].scope == scope {
			return
		}
		out = append(out, scopeRow{addr, scope})
	}
	var stack []extent
	closeUpTo := func(addr uint32) {
		for len(stack) > 0 && stack[len(stack)-1].high <= addr {
			ended := stack[len(stack)-1].high
			stack = stack[:len(stack)-1]
			for len(stack) > 0 && stack[len(stack)-1].high <= ended {
				stack = stack[:len(stack)-1]
			}
			outer := uint32(noScope)
			if len(stack) > 0 {
				outer = stack[len(stack)-1].scope
			}
			put(ended, outer)
		}
	}
	for _, x := range w.extents {
		closeUpTo(x.low)
		if n := len(stack); n > 0 {
			if stack[n-1].depth >= x.depth {
				continue // two that overlap without one being inlined into the other: the first stays
			}
			x.high = min(x.high, stack[n-1].high)
		}
		put(x.low, x.scope)
		stack = append(stack, x)
	}
	closeUpTo(math.MaxUint32)
	return slices.Clip(out)
}
