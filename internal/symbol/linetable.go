// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// lineTable is what is held of one binary.
type lineTable struct {
	bin    *binary // what never changes of it
	main   currentFile
	asker  model.ProcessID // below whose root other files are looked for
	used   uint64
	serial uint64 // in the cache of pages
	read   bool   // debug information was looked for
	// opening is what is being opened, separate says that it is the debug file.
	opening  *debuginfo.Opening
	separate bool
	data     *debuginfo.Data
	known    *debuginfo.Known // of the cache on disk
	noLines  bool

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

func (t *lineTable) image() elfimage.Image { return elfimage.Image{Src: &t.main, Size: t.bin.size} }

// inflateAtOnce is how much of a compressed file is inflated in one piece of work: some 20 ms.
const inflateAtOnce = 8 << 20

// open opens the debug information of a binary, a piece of work at a time; true when there is more of it to do.
func (m *lineTables) open(t *lineTable) (more bool) {
	if t.read {
		return false
	}
	var data *debuginfo.Data
	var err error
	if t.opening == nil && !t.separate {
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
		t.separate = true
		if m.search(t); t.file.Size == 0 {
			break
		}
		t.opening, err = debuginfo.Begin(t.file.Image, m.options(t, t.path, t.bin.path))
	}
	m.opened(t, data, err)
	return false
}

func (m *lineTables) options(t *lineTable, path, binary string) debuginfo.Options {
	return debuginfo.Options{Memory: m.limit, Workspace: &m.workspace, Open: m.beside(t), Path: path, Binary: binary}
}

// opened keeps the debug information of a binary; nil when it has none.
func (m *lineTables) opened(t *lineTable, data *debuginfo.Data, err error) {
	t.read = true
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
		return
	}
	if t.read = s.fetch(t.bin); !t.read {
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
	sym := t.symbols.findReturn(addr)
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

func (t *lineTable) close() error {
	var errs []error
	if t.opening != nil {
		errs = append(errs, t.opening.Close())
	}
	if t.data != nil {
		errs = append(errs, t.data.Close())
	}
	if t.file.Close != nil {
		errs = append(errs, t.file.Close())
	}
	return errors.Join(errs...)
}
