// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"bytes"
	"debug/elf"
	"fmt"
)

const (
	// symbolBytes is the size of Elf64_Sym.
	symbolBytes = 24
	// maxTableBytes bounds a table of symbols: some 11 million of them.
	maxTableBytes = 256 << 20
	// windowBytes is how much of a table of names is in memory at once.
	windowBytes = 64 << 10
	// MaxFunctionName is the length in bytes from which on EachFunction leaves names out.
	MaxFunctionName = 64
)

// EachFunction calls visit with each function that symbol tables of one kind define, and its virtual address, in a 64-bit file. The name is
// valid until visit returns; names of MaxFunctionName bytes and more are left out. buf is the buffer to read into.
func (f *File) EachFunction(sections []Section, kind elf.SectionType, buf []byte, visit func(name []byte, address uint64)) error {
	for i := range sections {
		table := &sections[i]
		if table.Type != kind || int(table.Link) >= len(sections) {
			continue
		}
		names := window{file: f, start: sections[table.Link].Off, size: sections[table.Link].Size}
		err := f.Chunks(buf, table.Off, min(table.Size, maxTableBytes), symbolBytes, func(_ uint64, b []byte) bool {
			for ; len(b) >= symbolBytes; b = b[symbolBytes:] {
				if b[4]&0xf != byte(elf.STT_FUNC) || le.Uint16(b[6:]) == uint16(elf.SHN_UNDEF) {
					continue
				}
				if name := names.text(uint64(le.Uint32(b))); len(name) > 0 {
					visit(name, le.Uint64(b[8:]))
				}
			}
			return true
		})
		if err != nil {
			return fmt.Errorf("symbols: %w", err)
		}
	}
	return nil
}

// window is a part of a table of names that is in memory. Successive symbols mostly have successive names.
type window struct {
	file        *File
	start, size uint64 // of the table, in the file
	held        []byte
	at          uint64 // of held, in the table
}

// text returns the name at an offset of the table, without its end, valid until
// the next call; nothing when it is too long or cannot be read.
func (w *window) text(off uint64) []byte {
	if off >= w.size {
		return nil
	}
	if off < w.at || off-w.at+min(MaxFunctionName, w.size-off) > uint64(len(w.held)) {
		if !w.read(off) {
			return nil
		}
	}
	b := w.held[off-w.at:]
	end := bytes.IndexByte(b[:min(len(b), MaxFunctionName)], 0)
	return b[:max(end, 0)]
}

// read moves the window, so that it contains names before off, too.
func (w *window) read(off uint64) bool {
	if w.held == nil {
		w.held = make([]byte, windowBytes)
	}
	from := off - min(off, windowBytes/4)
	w.held = w.held[:min(windowBytes, w.size-from)]
	if w.file.Read(w.held, w.start+from) != nil {
		w.held = w.held[:0]
		return false
	}
	w.at = from
	return true
}
