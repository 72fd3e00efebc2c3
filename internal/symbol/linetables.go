// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
)

const (
	// storeEvery is after how many new addresses what is known of a binary is written to the cache on disk, beside when nobody runs it
	// any more.
	storeEvery = 4096
	// maxBesideFiles bounds the binaries of which other files are held open.
	maxBesideFiles = 16
	// maxInFiles is from how many bytes of compressed sections in files on that only one binary has such.
	maxInFiles = 1 << 30
)

// lineTables is what the reader of lines holds of binaries. It belongs to one goroutine.
type lineTables struct {
	s         *Symbolizer
	cache     *debuginfo.Cache // nil when there is none
	limit     int64            // bytes
	workspace debuginfo.Workspace
	scratch   []byte
	pages     *pageCache // of names in other symbol tables
	of        map[*binary]*lineTable
	tick      uint64
	lines     []debuginfo.Line
	readable  map[string]string
}

func newLineTables(s *Symbolizer, cache *debuginfo.Cache, limit int64) lineTables {
	return lineTables{
		s: s, cache: cache, limit: limit, pages: newPageCache(0),
		of: make(map[*binary]*lineTable), readable: make(map[string]string),
	}
}

// find gives the lines of a frame; where debug information has none, another symbol table's name if the frame has no other.
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

// table gives what is held of a job's binary.
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
	t.used, t.asker, t.main.src = m.tick, j.asker, j.file
	return t
}

// lookup gives the lines of an address, the outermost with the name that its function goes by. They are valid until the next call.
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

// prepare does a piece of the work that comes before lines of a job can be found; true when there is more of it.
func (m *lineTables) prepare(j *lineJob) (more bool) {
	t := m.table(j)
	if t.read || !m.s.debugInfo {
		return false
	}
	if known := m.remembered(t); known != nil && !slices.ContainsFunc(j.wanted, func(w wantedLines) bool {
		_, ok := known.Lines(w.e.frame.Address)
		return !ok
	}) {
		return false
	}
	return m.open(t)
}

// remembered gives what the cache on disk knows of a binary; nil when there is no cache or the binary has no place in it.
func (m *lineTables) remembered(t *lineTable) *debuginfo.Known {
	if t.known != nil || m.cache == nil || t.bin.cacheKey() == "" {
		return t.known
	}
	known, err := m.cache.Load(t.bin.cacheKey())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			m.failed(t, err)
		}
		known = debuginfo.NewKnown()
	}
	t.known = known
	return known
}

// store writes what is new of a binary to the cache on disk, from so many addresses on.
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

// rest is told that the file of a job may be closed.
func (m *lineTables) rest(j *lineJob) {
	if t := m.of[j.bin]; t != nil {
		t.main.src = nil
	}
	m.trim()
}

// visit looks at a binary of which nothing is wanted: it is forgotten, nobody runs it any more, or its debug file has arrived.
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

// tell says what cannot be found out of a binary, which is not held then. The symbolizer is locked.
func (m *lineTables) tell(b *binary) {
	t := m.of[b]
	b.lines.held = t != nil
	if t == nil {
		return
	}
	b.lines.noLines, b.lines.noNames = t.noLines, t.named && t.symbols == nil
	if b.lines.noLines && b.lines.noNames {
		delete(m.of, b)
		b.lines.held = false
	}
}

// bytes is what is held, but for what is held of no binary.
func (m *lineTables) bytes() (n int64) {
	for _, t := range m.of {
		n += t.bytes()
	}
	return n
}

// trim drops what was not used for longest until all is within the bounds.
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
	for held := m.bytes(); held > m.limit || files > maxBesideFiles || tooMuch(); {
		var oldest *lineTable
		for _, t := range m.of {
			fits := held > m.limit || files > maxBesideFiles && t.others() || tooMuch() && t.inFiles() > 0
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

// drop frees what is held of a binary. It is read again when it is needed.
func (m *lineTables) drop(t *lineTable) {
	m.store(t, 1)
	m.pages.forget(t.serial)
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

// cacheKey names a binary in the cache on disk, empty for one that cannot be told from others: a build id alone is what a process says of
// itself, hence the hash of the file's head and tail.
func (b *binary) cacheKey() string {
	if b.id.GNU == "" || b.id.HTLHash == "" {
		return ""
	}
	return b.id.GNU + "-" + b.id.HTLHash
}
