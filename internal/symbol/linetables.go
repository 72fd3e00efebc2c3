// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// storeEvery is after how many new addresses what is known of a binary is written to the cache on disk, beside when nobody runs it
	// any more.
	storeEvery = 4096
	// maxBesideFiles bounds the binaries of which other files are held open.
	maxBesideFiles = 16
	// maxReadable bounds the names that are remembered in their readable form.
	maxReadable = 4096
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

// lineTable is what is held of one binary.
type lineTable struct {
	bin     *binary // what never changes of it
	main    currentFile
	asker   model.ProcessID // below whose root other files are looked for
	used    uint64
	serial  uint64 // in the cache of pages
	read    bool   // debug information was looked for
	data    *debuginfo.Data
	known   *debuginfo.Known // of the cache on disk
	noLines bool

	// The debug file, or the small one in .gnu_debugdata.
	searched bool
	fetched  bool           // from a server, in a file of no file system that is observed
	file     debuginfo.File // the debug file; no bytes when there is none
	path     string         // of the debug file
	named    bool           // other symbols were looked for
	names    elfimage.Image // where symbols holds its names
	symbols  *symTable
	small    int64 // bytes of the small file
}

// currentFile reads a binary's file, whichever descriptor that has by now.
type currentFile struct{ src source }

// ReadAt implements io.ReaderAt.
func (c *currentFile) ReadAt(buf []byte, off int64) (int, error) {
	if c.src == nil {
		return 0, io.ErrClosedPipe
	}
	return c.src.ReadAt(buf, off)
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
	data := m.debugData(t)
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

// functionAt gives the function, not inlined, that an address belongs to, nil when that is not known.
func functionAt(data *debuginfo.Data, addr uint64) *debuginfo.Function {
	lines, err := data.Lookup(addr, nil)
	if err != nil || len(lines) == 0 {
		return nil
	}
	return lines[len(lines)-1].Function
}

// alias gives the function of an address by the name that it is known by. A symbol that begins with the same function is what others
// call it, where the compiler wrote the name of an alias that only the library itself uses, as __GI_read. Parts and variants that the
// compiler made of a function, as read.cold, are that function.
func alias(f *debuginfo.Function, symbol string, atSymbol func() *debuginfo.Function) *debuginfo.Function {
	if symbol == "" {
		return f
	}
	if f == nil { // code of an assembler has lines and no function
		return &debuginfo.Function{Linkage: symbol}
	}
	own := f.Linkage
	if own == "" {
		own = f.Name
	}
	plain, _, _ := strings.Cut(symbol, "@")
	if own == plain || strings.HasPrefix(plain, own+".") {
		return f
	}
	if there := atSymbol(); there == nil || *there != *f {
		return f
	}
	return &debuginfo.Function{Name: f.Name, Linkage: symbol, File: f.File, Line: f.Line}
}

// named gives lines the names of their functions.
func (m *lineTables) named(lines []debuginfo.Line) []namedLine {
	if len(lines) == 0 {
		return nil
	}
	out := make([]namedLine, len(lines))
	for i, l := range lines {
		out[i] = namedLine{file: l.File, line: int64(l.Line)}
		if l.Function == nil {
			continue
		}
		system := l.Function.Linkage
		if system == "" {
			system = l.Function.Name
		}
		out[i].system, out[i].name = system, m.demangled(system)
		if l.Function.File == l.File {
			out[i].start = int64(l.Function.Line)
		}
	}
	return out
}

// demangled gives the readable form of a name.
func (m *lineTables) demangled(system string) string {
	name, ok := m.readable[system]
	if !ok {
		if len(m.readable) == maxReadable {
			clear(m.readable)
		}
		name, _ = demangled(system)
		m.readable[system] = name
	}
	return name
}

// debugData gives the debug information of a binary; nil when it has none.
func (m *lineTables) debugData(t *lineTable) *debuginfo.Data {
	if t.read {
		return t.data
	}
	t.read = true
	options := debuginfo.Options{Memory: m.limit, Workspace: &m.workspace, Open: m.beside(t), Path: t.bin.path}
	data, err := debuginfo.Open(t.image(), options)
	if data == nil {
		if m.search(t); t.file.Size > 0 {
			options.Path, options.Binary = t.path, t.bin.path
			data, err = debuginfo.Open(t.file.Image, options)
		}
	}
	if data != nil && data.Bytes() > m.limit {
		err = errors.Join(fmt.Errorf("index of %d bytes: %w of %d", data.Bytes(), errTooLarge, m.limit), data.Close())
		data = nil
	}
	if err != nil && !errors.Is(err, debuginfo.ErrNone) {
		m.failed(t, err)
	}
	t.data = data
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if data != nil {
		s.count.tablesBuilt++
		return data
	}
	t.read = s.fetch(t.bin)
	t.noLines = t.read && (t.known == nil || t.known.Bytes() == 0)
	return nil
}

func (t *lineTable) image() elfimage.Image { return elfimage.Image{Src: &t.main, Size: t.bin.size} }

// beside makes a function that opens other files of a binary.
func (m *lineTables) beside(t *lineTable) func(path string) (debuginfo.File, error) {
	return func(path string) (debuginfo.File, error) { return m.s.openBeside(t.asker, path) }
}

// openBeside opens a file by its absolute path below the root of a process, or else below the host's.
func (s *Symbolizer) openBeside(id model.ProcessID, path string) (debuginfo.File, error) {
	c, err := s.proc.beside(id, path)
	if err != nil {
		return debuginfo.File{}, err
	}
	defer c.close() //nolint:errcheck // a file that was only looked at
	src, err := c.open()
	if err != nil {
		return debuginfo.File{}, err
	}
	return debuginfo.File{Image: elfimage.Image{Src: src, Size: uint64(max(c.key().size, 0))}, Close: src.Close}, nil
}

// search looks for the debug file of a binary, once.
func (m *lineTables) search(t *lineTable) {
	if t.searched || !m.s.debugInfo {
		return
	}
	t.searched = true
	file, path, err := debuginfo.Separate(t.image(), t.bin.path, m.beside(t))
	if err == nil {
		t.file, t.path = file, path
	} else if !errors.Is(err, debuginfo.ErrNone) {
		m.failed(t, err)
	}
}

// otherSymbol names an address by the symbol table of the debug file, and says where the symbol begins.
func (m *lineTables) otherSymbol(t *lineTable, addr uint64) (name string, start uint64) {
	if !t.named {
		t.named = true
		m.readSymbols(t)
	}
	if t.symbols == nil {
		return "", 0
	}
	sym := t.symbols.find(addr)
	if sym == nil {
		return "", 0
	}
	off, limit := t.symbols.nameAt(sym.name)
	name, err := elfimage.ReadText(m.reader(t), off, int(min(limit, maxName)))
	if err != nil {
		m.failed(t, fmt.Errorf("reading a symbol name at %#x: %w", off, err))
	}
	return name, t.symbols.base + uint64(sym.addr)
}

func (m *lineTables) reader(t *lineTable) elfimage.Reader {
	return reader{cache: m.pages, owner: t.serial, image: t.names}
}

// readSymbols makes the table of the symbols beside those of the binary.
func (m *lineTables) readSymbols(t *lineTable) {
	m.search(t)
	if t.names = t.file.Image; t.names.Size == 0 {
		small, err := debuginfo.MiniDebug(t.image())
		if err != nil {
			if !errors.Is(err, debuginfo.ErrNone) {
				m.failed(t, err)
			}
			return
		}
		t.names, t.small = small, int64(small.Size)
	}
	if m.scratch == nil {
		m.scratch = make([]byte, scratchBytes)
	}
	symbols, err := buildSymbolsOf(t.names, m.reader(t), m.scratch, func(entries int, each int64) error {
		if bytes := int64(entries)*each + t.small; bytes > m.limit {
			return fmt.Errorf("table of %d functions, %d bytes: %w of %d", entries, bytes, errTooLarge, m.limit)
		}
		return nil
	})
	if err != nil {
		m.failed(t, fmt.Errorf("symbols: %w", err))
		t.names, t.small = elfimage.Image{}, 0
	}
	t.symbols = symbols
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

func (t *lineTable) bytes() int64 {
	n := t.small + recordBytes
	if t.symbols != nil {
		n += t.symbols.bytes()
	}
	if t.data != nil {
		n += t.data.Bytes()
	}
	if t.known != nil {
		n += t.known.Bytes()
	}
	return n
}

// others reports whether files of an observed file system are open beside the binary.
func (t *lineTable) others() bool {
	return t.file.Size > 0 && !t.fetched || t.data != nil && t.data.Others()
}

// trim drops what was not used for longest until all is within the bounds.
func (m *lineTables) trim() {
	files := 0
	for _, t := range m.of {
		if t.others() {
			files++
		}
	}
	for held := m.bytes(); held > m.limit || files > maxBesideFiles; {
		var oldest *lineTable
		for _, t := range m.of {
			if (held > m.limit || t.others()) && (oldest == nil || t.used < oldest.used) {
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

func (t *lineTable) close() error {
	var errs []error
	if t.data != nil {
		errs = append(errs, t.data.Close())
	}
	if t.file.Close != nil {
		errs = append(errs, t.file.Close())
	}
	return errors.Join(errs...)
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
