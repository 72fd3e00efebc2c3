// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"container/list"
	"debug/elf"
	"fmt"
	"io"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// fileKey is the identity of a file: never its path alone, since that may be replaced, and not the inode alone, since its number may be
// reused.
type fileKey struct {
	// path is the name that processes use. A user may give any file another name in a mount namespace of its own, which must not be the name
	// of its mapping in the profiles of other processes. It is empty where that does not matter.
	path     string
	dev, ino uint64
	size     int64
	mtime    int64 // nanoseconds
}

// source is an open file of an observed process.
type source interface {
	io.ReaderAt
	io.Closer
}

// recordBytes is the assumed size of a binary without tables and frames.
const recordBytes = 1 << 10

// binary is what is known of one file, or of a mapping that has none. The mutex of the Symbolizer guards all but what newBinary sets.
type binary struct {
	failedPasses int  // batches of partial tables of which no address was found, in a row
	passFailed   bool // an address exceeded the memory bound, which is counted

	serial   uint64
	key      fileKey
	aliases  []fileKey // other files with the same content
	path     string
	size     uint64
	id       model.BuildID
	content  content
	sharable bool   // other files with the same content are taken for this one
	private  bool   // no other file is taken for this one, whatever its content
	known    string // the key by which other packages know its content, see contentKey
	arch     elf.Machine
	summing
	segments []segment
	cause    reason.Cause // why no address in it has a name, or named

	file    source        // nil while closed
	pinned  bool          // in memory, never closed
	refs    int           // regions of address spaces
	resting *list.Element // of Symbolizer.idle, while there are no references
	used    uint64        // tick of the last look-up that missed the cache, or of opening the file
	lost    bool          // a look-up failed because the file could not be read

	origin origin
	of     *binary            // of a view: the binary
	domain domain             // of a view: its domain
	views  map[domain]*binary // nil in it: the domain has no debug information of its own

	golang  goTables
	symbols symTables
	evicted time.Time // when its tables were evicted, zero if they were built since
	needed  time.Time // when a name was last looked up in its tables
	names   nameAsk
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
	// noRoom is when there was no memory for the table; zero: there was.
	noRoom time.Time
}

type symTables struct {
	loaded bool
	table  *elfsym.Table
}

func (b *binary) tableBytes() int64 {
	var n int64
	if b.golang.table != nil {
		n += b.golang.table.Bytes()
	}
	if b.symbols.table != nil {
		n += b.symbols.table.Bytes()
	}
	return n
}

func (b *binary) image() elfimage.Image { return elfimage.Image{Src: b.opened(), Size: b.size} }

// opened is the open file, nil while there is none.
func (b *binary) opened() source {
	if b.file == nil {
		return b.names.reading
	}
	return b.file
}

// nameless makes a binary for a mapping without a readable file.
func nameless(path string, why reason.Cause) *binary { return &binary{path: path, cause: why} }

// newBinary reads headers and build ids of a file. A file that is not an ELF file, or a broken one, is recorded as such; the error has the
// reason.
func newBinary(path string, key fileKey, src source) (*binary, error) {
	b := &binary{key: key, path: path, size: uint64(max(key.size, 0)), file: src}
	f, err := elfimage.Parse(b.image())
	if err != nil {
		b.cause = reason.BadELF
		if err == elfimage.ErrNotELF || err == elfimage.ErrByteOrder { //nolint:errorlint // exactly these
			b.cause = reason.NotELF
		}
		return b, reason.New(b.cause, fmt.Errorf("reading the ELF header of %s: %w", path, err))
	}
	b.arch = f.Machine
	b.id, err = elfsym.BuildIDOf(f)
	if err != nil {
		err = reason.New(reason.BadELF, fmt.Errorf("reading the build id of %s: %w", path, err))
	}
	b.content, b.sum = contentOf(f, b.id)
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
	known   string // the key of its content when it was handed out, if the binary has another one now
}

// place finds the segment that a mapping shows and from it the load bias. If two segments share a page, it is the one that begins at the
// mapping's offset. A mapping without an executable segment keeps its file offsets.
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
