// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// lineTable is the state of one binary.
type lineTable struct {
	bin    *binary // of which only immutable fields are used
	main   currentFile
	viewer viewer // below whose root other files are searched
	used   uint64
	serial uint64 // in the cache of pages
	read   bool   // debug information was searched
	// opening is what is being opened, separate: it is the debug file.
	opening  *debuginfo.Opening
	separate bool
	data     *debuginfo.Data
	known    *debuginfo.Known // of the cache on disk
	noLines  bool

	missing bool // a part of the debug information is in no file that serves all processes
	own     bool // a file below the root of the viewer was opened
	gone    bool // the viewer has exited
	// tooLarge: a debug file was too large to be compared, which was counted.
	tooLarge bool
	refused  bool   // a file that was not read was counted
	without  domain // one that is known to have no debug file of its own

	// The debug file, or the small one in .gnu_debugdata.
	searched bool
	search   *debuginfo.Search // under way
	fetched  bool              // from a server, in a file of no file system that is observed
	file     debuginfo.File    // the debug file; no bytes when there is none
	path     string            // of the debug file
	named    bool              // other symbols were searched
	names    elfimage.Image    // where symbols holds its names
	symbols  *elfsym.Table
	small    int64 // bytes of the small file
}

// currentFile reads a binary's file through its current descriptor.
type currentFile struct{ src source }

// ReadAt implements io.ReaderAt.
func (c *currentFile) ReadAt(buf []byte, off int64) (int, error) {
	if c.src == nil {
		return 0, io.ErrClosedPipe
	}
	return c.src.ReadAt(buf, off)
}

func (t *lineTable) image() elfimage.Image { return elfimage.Image{Src: &t.main, Size: t.bin.size} }

// inflateAtOnce is how much of a compressed file is inflated in one step: some 20 ms.
const inflateAtOnce = 8 << 20

// open opens the debug information of a binary, one step per call; true when there is more of it to do.
func (m *lineTables) open(t *lineTable) (more bool) {
	if t.read {
		return false
	}
	var data *debuginfo.Data
	var err error
	if t.opening == nil && !t.separate && t.search == nil {
		t.opening, err = debuginfo.Begin(t.image(), m.options(t, t.bin.path, ""))
	}
	for {
		if t.opening != nil {
			if t.opening.Inflate(inflateAtOnce) {
				return true
			}
			data, err = t.opening.Finish()
			t.opening = nil
		}
		if data != nil || t.separate {
			break
		}
		if m.search(t) {
			return true
		}
		t.separate = true
		if t.file.Size == 0 {
			break
		}
		t.opening, err = debuginfo.Begin(t.file.Image, m.options(t, t.path, t.bin.path))
	}
	m.opened(t, data, err)
	return false
}

func (m *lineTables) options(t *lineTable, path, binary string) debuginfo.Options {
	return debuginfo.Options{Memory: m.limit, Workspace: &m.workspace, Open: m.opener(t), Path: path, Binary: binary}
}

// opened keeps the debug information of a binary; nil when it has none.
func (m *lineTables) opened(t *lineTable, data *debuginfo.Data, err error) {
	t.read = true
	if data != nil && data.Bytes() > m.limit {
		err = errors.Join(fmt.Errorf("index of %d bytes: %w of %d", data.Bytes(), reason.ErrTooLarge, m.limit), data.Close())
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
		return
	}
	if t.read = t.bin.of != nil || s.fetch(t.bin); !t.read {
		t.separate = false
	}
	t.noLines = t.read && (t.known == nil || t.known.Bytes() == 0)
}

// inFiles is how many bytes of a binary's compressed sections are in files.
func (t *lineTable) inFiles() uint64 {
	if t.data == nil {
		return 0
	}
	return t.data.InFiles()
}

// opener makes a function that opens files that the debug information of a binary names.
func (m *lineTables) opener(t *lineTable) func(path string) (debuginfo.File, error) {
	return func(name string) (debuginfo.File, error) {
		file, err := m.openOther(t, name)
		t.missing = t.missing || err != nil && path.Ext(name) != ".dwp" // most programs have .dwo files instead
		return file, err
	}
}

// search searches for the debug file of a binary, once, one step per call; true when there is more of it to do.
func (m *lineTables) search(t *lineTable) (more bool) {
	if t.searched || !m.s.debugInfo {
		return false
	}
	var err error
	if t.search == nil {
		t.search, err = debuginfo.NewSearch(t.image(), t.bin.path, func(path string) (debuginfo.File, error) { return m.openOther(t, path) })
	}
	if err == nil {
		if t.search.Step() {
			return true
		}
		t.file, t.path, err = t.search.Result()
	}
	t.searched, t.search = true, nil
	if err != nil && !onlyNone(err) {
		t.tooLarge = true
		m.failed(t, err)
	}
	return false
}

// stopSearch cancels the search for a debug file, for example if no process runs the binary.
func (m *lineTables) stopSearch(t *lineTable) {
	if err := t.search.Close(); err != nil {
		m.failed(t, err)
	}
	t.searched, t.search = true, nil
}

// onlyNone reports whether there was no debug file, and none that was refused.
func onlyNone(err error) bool {
	return errors.Is(err, debuginfo.ErrNone) && !errors.Is(err, debuginfo.ErrTooLarge)
}

// otherSymbol names an address by the symbol table of the debug file, and returns where the symbol begins.
func (m *lineTables) otherSymbol(t *lineTable, addr uint64) (name string, start uint64) {
	if !t.named {
		t.named = true
		m.readSymbols(t)
	}
	if t.symbols == nil {
		return "", 0
	}
	sym := t.symbols.FindReturn(addr)
	if sym == nil {
		return "", 0
	}
	off, limit := t.symbols.NameAt(sym.Name)
	name, err := elfimage.ReadText(m.reader(t), off, int(min(limit, elfsym.MaxName)))
	if err != nil {
		m.failed(t, fmt.Errorf("reading a symbol name at %#x: %w", off, err))
	}
	return name, t.symbols.Base + uint64(sym.Addr)
}

func (m *lineTables) reader(t *lineTable) elfimage.Reader {
	return elfsym.Reader{Cache: m.pages, Owner: t.serial, Image: t.names}
}

// readSymbols makes the table of the symbols in addition to those of the binary.
func (m *lineTables) readSymbols(t *lineTable) {
	for m.search(t) {
	}
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
		m.scratch = make([]byte, elfsym.ScratchBytes)
	}
	symbols, err := elfsym.Build(t.names, m.reader(t), m.scratch, func(entries int, each int64) error {
		if bytes := int64(entries)*each + t.small; bytes > m.limit {
			return fmt.Errorf("table of %d functions, %d bytes: %w of %d", entries, bytes, reason.ErrTooLarge, m.limit)
		}
		return nil
	})
	if err != nil {
		m.failed(t, fmt.Errorf("symbols: %w", err))
		t.names, t.small = elfimage.Image{}, 0
	}
	t.symbols = symbols
}

func (t *lineTable) bytes() int64 {
	n := t.small + recordBytes
	if t.symbols != nil {
		n += t.symbols.Bytes()
	}
	if t.data != nil {
		n += t.data.Bytes()
	}
	if t.known != nil {
		n += t.known.Bytes()
	}
	return n
}

// others reports whether further files of an observed file system are open for the binary.
func (t *lineTable) others() bool {
	return t.search != nil || t.file.Size > 0 && !t.fetched || t.data != nil && t.data.Others()
}

func (t *lineTable) close() error {
	var errs []error
	if t.opening != nil {
		errs = append(errs, t.opening.Close())
	}
	if t.search != nil {
		errs = append(errs, t.search.Close())
	}
	if t.data != nil {
		errs = append(errs, t.data.Close())
	}
	if t.file.Close != nil {
		errs = append(errs, t.file.Close())
	}
	return errors.Join(errs...)
}
