// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

const (
	// storeEvery is after how many new addresses the results of a binary are written to the cache on disk. They are also written when no
	// process runs it any more.
	storeEvery = 4096
	// maxExternalFiles bounds the binaries of which further files are held open.
	maxExternalFiles = 16
	// maxInFiles is the size of compressed sections in files from which on only one binary has such files.
	maxInFiles = 1 << 30
)

// lineTables are the tables of the reader of lines, by binary. They belong to one goroutine.
type lineTables struct {
	s         *Symbolizer
	cache     *debuginfo.Cache // nil when there is none
	limit     int64            // bytes
	workspace debuginfo.Workspace
	scratch   []byte
	pages     *elfsym.Pages // of names in other symbol tables
	of        map[*binary]*lineTable
	tick      uint64
	lines     []debuginfo.Line
	readable  map[string]string
}

func newLineTables(s *Symbolizer, cache *debuginfo.Cache, limit int64) lineTables {
	return lineTables{
		s: s, cache: cache, limit: limit, pages: elfsym.NewPages(0),
		of: make(map[*binary]*lineTable), readable: make(map[string]string),
	}
}

// find returns the lines of a frame; if debug information has none, another symbol table's name if the frame has no other.
func (m *lineTables) find(j *lineJob, w wantedLines) []namedLine {
	t := m.table(j)
	addr, symbol, start := w.e.frame.Address, "", w.start
	if f := symbolOf(w.e); f != nil {
		symbol = f.SystemName
	} else {
		symbol, start = m.otherSymbol(t, addr)
	}
	if lines := m.named(m.lookup(t, addr, symbol, start)); lines != nil {
		return lines
	}
	if symbol != "" && symbolOf(w.e) == nil {
		return []namedLine{{system: symbol, name: m.demangled(symbol)}}
	}
	return nil
}

// table returns the state of a job's binary.
func (m *lineTables) table(j *lineJob) *lineTable {
	m.tick++
	t := m.of[j.bin]
	if t == nil {
		t = &lineTable{bin: j.bin, serial: m.tick}
	}
	if j.arrived.Size > 0 {
		m.drop(t)
		t = &lineTable{bin: j.bin, serial: m.tick, searched: true, fetched: true, file: j.arrived, path: j.bin.path}
		j.arrived = debuginfo.File{}
	}
	m.of[j.bin] = t
	t.used, t.viewer, t.main.src = m.tick, j.asker, j.file
	return t
}

// lookup returns the lines of an address, the outermost with the public name of its function. They are valid until the next call.
func (m *lineTables) lookup(t *lineTable, addr uint64, symbol string, start uint64) []debuginfo.Line {
	if !m.s.debugInfo {
		t.noLines = true
		return nil
	}
	if known := m.remembered(t); known != nil {
		if lines, ok := known.Lines(addr); ok {
			return lines
		}
	}
	for m.open(t) {
	}
	data := t.data
	if data == nil {
		return nil
	}
	lines, err := data.Lookup(addr, m.lines[:0])
	m.lines = lines
	if err != nil {
		m.failed(t, err)
	}
	if n := len(lines); n > 0 {
		f := alias(lines[n-1].Function, symbol, func() *debuginfo.Function { return functionAt(data, start) })
		if f == nil {
			return nil // without any name
		}
		lines[n-1].Function = f
	}
	if err == nil && t.known != nil {
		t.known.Put(addr, lines)
		m.store(t, storeEvery)
	}
	return lines
}

// prepare does a step of the work before lines of a job can be found; true when there is more of it.
func (m *lineTables) prepare(j *lineJob) (more bool) {
	t := m.table(j)
	if t.read || !m.s.debugInfo {
		return false
	}
	if known := m.remembered(t); known != nil && !slices.ContainsFunc(j.wanted, func(w wantedLines) bool {
		_, ok := known.Lines(w.e.frame.Address)
		return !ok
	}) {
		return slices.ContainsFunc(j.wanted, func(w wantedLines) bool { return symbolOf(w.e) == nil }) && m.search(t)
	}
	return m.open(t)
}

// summing reports whether the checksum of a debug file is made for a binary.
func (m *lineTables) summing(b *binary) bool {
	t := m.of[b]
	return t != nil && t.search != nil && t.search.Summing()
}

// remembered returns the content of the cache on disk for a binary; nil when there is no cache or the binary cannot be in it.
func (m *lineTables) remembered(t *lineTable) *debuginfo.Known {
	if t.known != nil || m.cache == nil || t.bin.cacheKey() == "" {
		return t.known
	}
	known, err := m.cache.Load(t.bin.cacheKey(), t.bin.origin.identity)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			m.failed(t, err)
		}
		known = debuginfo.NewKnown(t.bin.origin.identity)
	}
	t.known = known
	return known
}

// store writes the new results of a binary to the cache on disk, if there are at least so many addresses.
func (m *lineTables) store(t *lineTable, from int) {
	if t.known == nil || t.known.Changed() < from {
		return
	}
	if err := m.cache.Store(t.bin.cacheKey(), t.known); err != nil {
		m.failed(t, err)
	}
}

// failed counts an error.
func (m *lineTables) failed(t *lineTable, err error) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.badDebug(t.bin, err)
}

// rest is called when the file of a job may be closed.
func (m *lineTables) rest(j *lineJob) {
	if t := m.of[j.bin]; t != nil {
		if t.main.src != nil {
			m.searchOwn(t)
		}
		t.main.src = nil
	}
	m.trim()
}

// visit updates a binary without requests: it was dropped, no process runs it any more, or its debug file has arrived.
func (m *lineTables) visit(j *lineJob) {
	if j.arrived.Size > 0 {
		m.table(j)
	}
	t := m.of[j.bin]
	if t == nil {
		return
	}
	m.s.mu.Lock()
	_, known := m.s.all[j.bin]
	runs := j.bin.refs > 0
	m.s.mu.Unlock()
	if runs && known {
		return
	}
	m.store(t, 1)
	if !known || t.others() {
		m.drop(t)
	}
}

// record records what cannot be found out about a binary, which is not held then. The symbolizer is locked.
func (m *lineTables) record(b *binary) {
	t := m.of[b]
	b.lines.held = t != nil
	if t == nil {
		return
	}
	b.lines.noLines, b.lines.noNames = t.noLines, t.named && t.symbols == nil
	t.decide(m.s)
	if b.lines.noLines && b.lines.noNames {
		delete(m.of, b)
		b.lines.held = false
	}
}

// bytes is the memory in use for binaries.
func (m *lineTables) bytes() (n int64) {
	for _, t := range m.of {
		n += t.bytes()
	}
	return n
}

// trim drops the least recently used until all is within the bounds.
func (m *lineTables) trim() {
	files, inflated := 0, 0
	for _, t := range m.of {
		if t.others() {
			files++
		}
		if t.inFiles() > 0 {
			inflated++
		}
	}
	tooMuch := func() bool { return inflated > 1 && m.workspace.InFiles() > maxInFiles }
	for held := m.bytes(); held > m.limit || files > maxExternalFiles || tooMuch(); {
		var oldest *lineTable
		for _, t := range m.of {
			fits := held > m.limit || files > maxExternalFiles && t.others() || tooMuch() && t.inFiles() > 0
			if fits && (oldest == nil || t.used < oldest.used) {
				oldest = t
			}
		}
		if oldest == nil {
			return
		}
		held -= oldest.bytes()
		if oldest.others() {
			files--
		}
		if oldest.inFiles() > 0 {
			inflated--
		}
		m.drop(oldest)
		m.s.mu.Lock()
		m.s.count.tablesEvicted++
		m.s.mu.Unlock()
	}
}

// drop frees the state of a binary. It is read again on demand.
func (m *lineTables) drop(t *lineTable) {
	m.store(t, 1)
	m.pages.Forget(t.serial)
	if err := t.close(); err != nil {
		m.failed(t, err)
	}
	delete(m.of, t.bin)
}

// close frees everything.
func (m *lineTables) close() error {
	var errs []error
	for _, t := range m.of {
		m.store(t, 1)
		errs = append(errs, t.close())
	}
	clear(m.of)
	return errors.Join(errs...)
}

// cacheKey names a binary in the cache on disk, empty for one that is not cached: a view, or one with an unknown file. A build id is a claim,
// which a copy of another user can make too, with other content, so that the key has the identity of the file.
func (b *binary) cacheKey() string {
	if b.of != nil || b.id.GNU == "" || b.id.HTLHash == "" || b.origin.identity == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(b.origin.identity))
	return b.id.GNU + "-" + b.id.HTLHash + "-" + hex.EncodeToString(sum[:8])
}
