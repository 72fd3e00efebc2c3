// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// keyLines marks the keys of functions that debug information names.
const keyLines = 1 << 63

// lineAsk has the requests for a binary's debug information. It is guarded by the mutex of the Symbolizer.
type lineAsk struct {
	wanted   []wantedLines // that the reader has not taken yet
	file     source        // for the reader, as long as anything is wanted
	asker    viewer
	arrived  debuginfo.File // the debug file that a server sent, until the reader takes it; no bytes when there is none
	queued   bool
	held     bool // the reader holds something of the binary
	noLines  bool // there is no debug information
	lacking  bool // there is none, or not all, in files that serve all processes
	noNames  bool // there are no symbols in addition to those of the binary
	reported bool // a failure was logged
}

// wantedLines is a frame whose lines are wanted.
type wantedLines struct {
	e     *entry
	start uint64 // of its symbol, where it has one
}

// idle reports whether nothing can be found out about a frame.
func (l *lineAsk) idle(e *entry, debugInfo bool) bool {
	return (l.noLines || !debugInfo) && (l.noNames || symbolOf(e) != nil)
}

// symbolOf is the function that a frame has from a symbol table, nil when there is none.
func symbolOf(e *entry) *model.Function { return e.line[0].Function }

// askLines requests the lines of a frame, if there may be any, and its name if it has none. start is the beginning of its symbol.
func (s *Symbolizer) askLines(a *AddressSpace, b *binary, at *region, e *entry, start uint64) {
	r, ask := s.lines, &b.lines
	if r == nil || r.over || ask.idle(e, s.debugInfo) {
		return
	}
	if r.waiting >= maxWantedLines {
		e.refused = true
		return
	}
	if len(ask.wanted) == 0 && !r.giveFile(b, e) {
		return
	}
	if ask.asker = (viewer{}); a != nil {
		id := a.identity()
		ask.asker = viewer{id: a.id, domain: id.domain, as: id.as, path: at.name()}
	}
	e.pending, e.frame.Late = true, new(atomic.Pointer[model.Frame])
	ask.wanted = append(ask.wanted, wantedLines{e, start})
	r.waiting++
	r.enqueue(b)
}

// giveFile opens the file of a binary once more, for the reader. It reports false when that fails.
func (r *lineReader) giveFile(b *binary, e *entry) bool {
	src, ok := b.tables().opened().(interface{ again() (source, error) })
	if !ok {
		return false // in memory
	}
	if r.files >= min(maxLineFiles, r.s.maxOpen) {
		e.refused = true
		return false
	}
	var err error
	if b.lines.file, err = src.again(); err != nil {
		r.s.badDebug(b, err)
		return false
	}
	r.files++
	return true
}

// namedLine is a line whose function has its names.
type namedLine struct {
	system, name, file string
	start, line        int64
}

// settle gives a frame the lines that were found, if any.
func (s *Symbolizer) settle(b *binary, e *entry, lines []namedLine) {
	e.pending = false
	final := e
	if _, known := s.all[b]; known && len(lines) > 0 {
		final = s.withLines(b, e, lines)
		e.frame.Late.Store(&final.frame)
	}
	s.count.frames[final.cause] += uint64(e.unsettled)
	e.unsettled = 0
}

// withLines makes a frame anew. Frames are immutable, since a reader may be using the old one.
func (s *Symbolizer) withLines(b *binary, old *entry, lines []namedLine) *entry {
	e := &entry{cause: reason.Named}
	e.frame = model.Frame{Type: old.frame.Type, Mapping: old.frame.Mapping, Address: old.frame.Address}
	out := e.line[:0]
	for i, l := range lines {
		f, key := s.lineFunction(b, l)
		if i == 0 {
			e.function = key
		} else {
			e.more = append(e.more, key)
		}
		out = append(out, model.Line{Function: f, Line: l.line})
	}
	e.frame.Lines = out
	if elfsym.IsRust(lines[len(lines)-1].system) {
		e.frame.Type = model.FrameRust
	}
	s.replaceFrame(b, old, e)
	return e
}

// lineFunction returns the function of a line.
func (s *Symbolizer) lineFunction(b *binary, l namedLine) (*model.Function, uint64) {
	key := keyOf(l.system, l.file, l.start)
	if f := b.frames.functionFor(key); f != nil && f.SystemName == l.system {
		return f, key
	}
	f := &model.Function{Name: l.name, SystemName: l.system, Filename: s.fileName(b, l.file), StartLine: l.start}
	s.putFunction(b, key, f)
	return f, key
}

var hashSeed = maphash.MakeSeed()

// keyOf is the key of a function that debug information names.
func keyOf(system, file string, start int64) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	h.WriteString(system) //nolint:errcheck // never fails
	h.WriteByte(0)        //nolint:errcheck // never fails
	h.WriteString(file)   //nolint:errcheck // never fails
	var b [8]byte
	le.PutUint64(b[:], uint64(start))
	h.Write(b[:]) //nolint:errcheck // never fails
	return h.Sum64() | keyLines
}

// badDebug counts what is wrong with the debug information of a binary, and logs it once.
func (s *Symbolizer) badDebug(b *binary, err error) {
	err = fmt.Errorf("reading the debug information of %s: %w", b.path, err)
	s.count.errors[reason.BadDebug]++
	s.count.last = err
	if !b.lines.reported {
		b.lines.reported = s.warnings.Warn(err)
	}
}
