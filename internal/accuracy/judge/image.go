// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// debugRoot is where Debian's -dbg and -dbgsym packages put what was stripped, by build id.
const debugRoot = "/usr/lib/debug/.build-id"

// image is the metadata of a binary.
type image struct {
	file    *elf.File
	closer  *os.File
	entry   uint64
	machine elf.Machine
	// full: there is a symbol table of all functions, not of the exported ones alone.
	full bool
	// symbols are functions by address; from .symtab, of the file or its debug file, and .dynsym.
	symbols []span
	// golang has the functions of a Go binary, stripped or not.
	golang *gosym.Table
}

// span is [start, end) in the addresses of the file.
type span struct{ start, end uint64 }

// openImage reads an ELF file. The caller closes it.
func openImage(path string) (*image, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening a binary: %w", err)
	}
	parsed, err := elf.NewFile(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", path, err), file.Close())
	}
	m := &image{file: parsed, closer: file, entry: parsed.Entry, machine: parsed.Machine}
	m.addSymbols(parsed)
	m.full = m.full || parsed.Section(".gnu_debugdata") != nil
	m.addDebugFile(debugRoot)
	m.addGo()
	sort.Slice(m.symbols, func(i, j int) bool { return m.symbols[i].start < m.symbols[j].start })
	return m, nil
}

func (m *image) close() error { return m.closer.Close() }

// addSymbols takes the functions of both symbol tables; that one is missing or broken means that it has none.
func (m *image) addSymbols(from *elf.File) {
	own, err := from.Symbols()
	m.full = m.full || err == nil && len(own) > 0
	exported, err := from.DynamicSymbols()
	if err == nil {
		own = append(own, exported...)
	}
	for _, s := range own {
		if kind := elf.ST_TYPE(s.Info); kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC {
			if s.Section != elf.SHN_UNDEF && s.Size > 0 {
				m.symbols = append(m.symbols, span{s.Value, s.Value + s.Size})
			}
		}
	}
}

// addDebugFile takes the symbols of the separate debug file, where one is installed.
func (m *image) addDebugFile(root string) {
	id := m.buildID()
	if len(id) < 2 {
		return
	}
	debug, err := elf.Open(filepath.Join(root, id[:2], id[2:]+".debug"))
	if err != nil {
		return // not installed
	}
	defer debug.Close()
	m.addSymbols(debug)
}

// buildID is NT_GNU_BUILD_ID in hexadecimal digits, or empty.
func (m *image) buildID() string {
	section := m.file.Section(".note.gnu.build-id")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	// Sizes of name and description, type, the name "GNU\0", the id.
	if err != nil || len(note) <= 16 || m.file.ByteOrder.Uint32(note) != 4 {
		return ""
	}
	size := m.file.ByteOrder.Uint32(note[4:])
	if uint64(size) > uint64(len(note)-16) {
		return ""
	}
	return hex.EncodeToString(note[16 : 16+size])
}

func (m *image) addGo() {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		section, text := m.file.Section(name), m.file.Section(".text")
		if section == nil || text == nil {
			continue
		}
		data, err := section.Data()
		if err != nil {
			continue
		}
		if table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr)); err == nil {
			m.golang, m.full = table, true
		}
	}
}

// goFunction is the name of the Go function at an address, or empty.
func (m *image) goFunction(address uint64) string {
	if m.golang == nil {
		return ""
	}
	if f := m.golang.PCToFunc(address); f != nil {
		return f.Name
	}
	return ""
}

// covered reports whether a function's symbol spans the address.
func (m *image) covered(address uint64) bool {
	after := sort.Search(len(m.symbols), func(i int) bool { return m.symbols[i].start > address })
	// Aliases and nested ranges: the nearest few starts may be those of shorter functions.
	for i := after - 1; i >= 0 && i >= after-8; i-- {
		if address < m.symbols[i].end {
			return true
		}
	}
	return false
}

// code returns up to size bytes of the binary from an address on; nil where there is no code.
func (m *image) code(address uint64, size int) []byte {
	for _, p := range m.file.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || address < p.Vaddr || address-p.Vaddr >= p.Filesz {
			continue
		}
		text := make([]byte, min(uint64(size), p.Filesz-(address-p.Vaddr)))
		if _, err := p.ReadAt(text, int64(address-p.Vaddr)); err != nil {
			return nil
		}
		return text
	}
	return nil
}

// has reports whether the code from an address on has these bytes within it.
func (m *image) has(address uint64, size int, bytesWanted []byte) bool {
	return bytes.Contains(m.code(address, size), bytesWanted)
}
