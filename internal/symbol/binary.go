// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"debug/elf"
	"fmt"
	"io"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// fileKey is the identity of a file: never its path, since that may be
// replaced, and not the inode alone, since that may be used again.
type fileKey struct {
	dev, ino uint64
	size     int64
	mtime    int64 // nanoseconds
}

// source is an open file of an observed process.
type source interface {
	io.ReaderAt
	io.Closer
}

// recordBytes is what a binary without tables and frames is taken to hold.
const recordBytes = 1 << 10

// binary is what is known of one file, or of a mapping that has none. All but
// what newBinary sets is guarded by the mutex of the Symbolizer.
type binary struct {
	serial   uint64
	key      fileKey
	aliases  []fileKey // other files with the same content
	path     string
	size     uint64
	id       model.BuildID
	content  content
	sharable bool // other files with the same content are taken for this one
	arch     elf.Machine
	segments []segment
	cause    cause // why nothing here can have a name, or named

	file   source // nil while closed
	pinned bool   // in memory, never closed
	refs   int    // regions of address spaces
	used   uint64 // tick of the last look-up that was not in the cache
	lost   bool   // a look-up failed for want of the file

	golang  goTables
	symbols symTables
	lines   lineAsk
	asked   time.Time // when servers were last asked for the debug file
	frames  frameCache
}

// segment is an executable PT_LOAD.
type segment struct {
	elfimage.Prog
	mapping *model.Mapping
}

type goTables struct {
	loaded bool
	table  *elfimage.GoTable
	inline bool // ResolveInline was tried
}

type symTables struct {
	loaded bool
	table  *symTable
}

func (b *binary) tableBytes() int64 {
	var n int64
	if b.golang.table != nil {
		n += b.golang.table.Bytes()
	}
	if b.symbols.table != nil {
		n += b.symbols.table.bytes()
	}
	return n
}

func (b *binary) image() elfimage.Image { return elfimage.Image{Src: b.file, Size: b.size} }

// nameless makes a binary for what has no file that can be read.
func nameless(path string, why cause) *binary { return &binary{path: path, cause: why} }

// newBinary reads headers and build ids of a file. A file that is not an ELF
// file, or a broken one, is known as such; the error says why.
func newBinary(path string, key fileKey, src source) (*binary, error) {
	b := &binary{key: key, path: path, size: uint64(max(key.size, 0)), file: src}
	f, err := elfimage.Parse(b.image())
	if err != nil {
		b.cause = badELF
		if err == elfimage.ErrNotELF || err == elfimage.ErrByteOrder { //nolint:errorlint // exactly these
			b.cause = notELF
		}
		return b, &reasonError{b.cause, fmt.Errorf("reading the ELF header of %s: %w", path, err)}
	}
	b.arch = f.Machine
	b.id, err = readBuildID(f)
	if err != nil {
		err = &reasonError{badELF, fmt.Errorf("reading the build id of %s: %w", path, err)}
	}
	b.content, b.sharable = contentOf(f, b.id)
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr+p.Memsz > p.Vaddr {
			m := &model.Mapping{Start: p.Vaddr, Limit: p.Vaddr + p.Memsz, FileOffset: p.Off, Path: path, BuildID: b.id}
			b.segments = append(b.segments, segment{p, m})
		}
	}
	return b, err
}

// region is one executable mapping of a process.
type region struct {
	mapEntry
	delta   uint64 // pc + delta is the address in the binary
	bin     *binary
	mapping *model.Mapping
}

// place finds the segment that a mapping shows and from it the load bias. Where
// segments meet within a page, the one that begins at the mapping's offset is
// meant. A mapping of what is no executable segment keeps its file offsets.
func place(e mapEntry, b *binary, page uint64) region {
	r := region{mapEntry: e, bin: b}
	var found *segment
	for i := range b.segments {
		s := &b.segments[i]
		first, last := s.Off&^(page-1), (s.Off+s.Filesz+page-1)&^(page-1)
		if e.offset == first {
			found = s
			break
		}
		if found == nil && e.offset >= first && e.offset < last {
			found = s
		}
	}
	if found != nil {
		r.mapping = found.mapping
		r.delta = found.Vaddr - found.Off + e.offset - e.start
		return r
	}
	r.delta = e.offset - e.start
	if b.path != "" {
		r.mapping = &model.Mapping{
			Start: e.offset, Limit: e.offset + (e.end - e.start), FileOffset: e.offset, Path: b.path, BuildID: b.id,
		}
	}
	return r
}
