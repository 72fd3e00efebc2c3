// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"debug/elf"
	enc "encoding/binary"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// maxDefining bounds the bytes that are read of the sections that define frames and functions. Without debug information a binary of 100 MB
// has some 20 MB of them, one in Go 30 MB.
const maxDefining = 128 << 20

// maxLineSections bounds the sections of debug information that are read in addition, some 10 ms of work: without it, a copy in another root
// is another binary.
const maxLineSections = 32 << 20

const (
	// sumBytes is how much of them is read at once, and sumChunk how much is summed before others have their turn.
	sumBytes = 16 << 10
	sumChunk = 1 << 20
)

// definingNames are the sections from which unwind tables and names of functions are made, each with its alternative names. Those of debug
// information are added to them.
var definingNames = [][]string{
	{".eh_frame_hdr"}, {".eh_frame"}, {".debug_frame"}, {".gopclntab", ".data.rel.ro.gopclntab"},
	{".symtab"}, {".strtab"}, {".dynsym"}, {".dynstr"}, {".gnu_debugdata"},
}

// contentSeed makes sums unpredictable, so that no file can be made to have the sum of another one.
var contentSeed = maphash.MakeSeed()

// content is what two files have in common that are taken to be one binary. Containers hold one file under many inodes. The build id alone
// does not prove that: a copy may be damaged, or made by a user who wants to change the profiles of others, and its frames and functions
// would be used for all others.
type content struct {
	id    model.BuildID
	size  uint64
	sum   uint64 // over the sections from which unwind tables and names of functions are made
	lines bool   // debug information is in the sum, or there is none
	// writer may change the file after it was read: the domain of the process that it was found by, with the user that owns it; none if that
	// is root and the sum has all.
	writer domain
}

// contentAt is a content under a path: copies in several roots are one binary if they have the same path there.
type contentAt struct {
	content
	path string
}

func (b *binary) contentAt() contentAt { return contentAt{b.content, b.path} }

// cameFrom records the origin of a binary's file, which was found for a process.
func (b *binary) cameFrom(from origin, found *procDir) {
	b.origin, b.private = from, from.open
	if b.sum == nil || from.writer == 0 && b.content.lines {
		return
	}
	finder, err := found.identity()
	b.content.writer, b.content.writer.uid, b.content.writer.payer = finder.domain, from.writer, 0
	b.private = b.private || err != nil
}

// contentOf describes the content of a file. The sum over it is still to be made. It is nil if too little is known to take another file for
// the same: without a build id that would rest on the hash of head and tail alone.
func contentOf(f *elfimage.File, id model.BuildID) (content, *contentSum) {
	if id.HTLHash == "" || id.GNU == "" && id.Go == "" {
		return content{}, nil
	}
	sum, lines := newContentSum(f)
	if sum == nil {
		return content{}, nil
	}
	return content{id: id, size: f.Size, lines: lines}, sum
}

// definingSections returns the sections from which unwind tables and names of functions are made, and those of debug information; nil for
// none.
func definingSections(f *elfimage.File, all []elfimage.Section) (names, lines []*elfimage.Section) {
	for _, oneOf := range definingNames {
		names = append(names, f.SectionNamed(all, oneOf...))
	}
	f.EachSection(all, func(name string, s *elfimage.Section) {
		for _, prefix := range []string{".debug_", ".zdebug_", ".gnu_debuglink", ".gnu_debugaltlink"} {
			if strings.HasPrefix(name, prefix) && name != ".debug_frame" { // which is among the others
				lines = append(lines, s)
			}
		}
	})
	return names, lines
}

// within reports whether sections have at most so many bytes together.
func within(limit uint64, list []*elfimage.Section) bool {
	total := uint64(0)
	for _, s := range list {
		if s != nil && s.Type != elf.SHT_NOBITS {
			if total += s.Size; s.Size > limit || total > limit {
				return false
			}
		}
	}
	return true
}

// contentSum is a sum over sections of a file, which is made chunk by chunk.
type contentSum struct {
	f      *elfimage.File
	chunks []contentChunk
	bytes  uint64
	hash   maphash.Hash
	buf    []byte
}

// contentChunk is a part of a section.
type contentChunk struct {
	number    uint64 // of the section
	s         *elfimage.Section
	off, size uint64
}

// newContentSum begins a sum over the sections from which unwind tables and names of functions are made, and over debug information unless
// that is large: lines reports whether it is in the sum. There is none if sections were stripped, lie outside of the file or exceed the
// bound.
func newContentSum(f *elfimage.File) (sum *contentSum, lines bool) {
	all, err := f.Sections()
	if err != nil || len(all) == 0 {
		return nil, false
	}
	list, debug := definingSections(f, all)
	if !within(maxDefining, list) {
		return nil, false
	}
	if lines = within(maxLineSections, debug); lines {
		list = append(list, debug...)
	}
	sum = &contentSum{f: f}
	sum.hash.SetSeed(contentSeed)
	for i, s := range list {
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Size > f.Size || s.Off > f.Size-s.Size {
			return nil, false
		}
		sum.bytes += s.Size
		for at := uint64(0); at == 0 || at < s.Size; at += sumChunk {
			sum.chunks = append(sum.chunks, contentChunk{uint64(i), s, s.Off + at, min(s.Size-at, sumChunk)})
		}
	}
	return sum, lines
}

// step adds the next chunk and reports whether there are more.
func (c *contentSum) step() (more bool, err error) {
	if len(c.chunks) == 0 {
		return false, nil
	}
	k := c.chunks[0]
	c.chunks = c.chunks[1:]
	if k.off == k.s.Off {
		for _, n := range []uint64{k.number, k.s.Addr, k.s.Off, k.s.Size} {
			c.hash.Write(le.AppendUint64(nil, n)) //nolint:errcheck // never fails
		}
	}
	if c.buf == nil {
		c.buf = make([]byte, sumBytes)
	}
	for off, end := k.off, k.off+k.size; off < end; {
		b := c.buf[:min(end-off, uint64(len(c.buf)))]
		if err := c.f.Read(b, off); err != nil {
			return false, err
		}
		c.hash.Write(b) //nolint:errcheck // never fails
		off += uint64(len(b))
	}
	return len(c.chunks) > 0, nil
}

// contentResult is the result of a sum.
type contentResult struct {
	sum       uint64
	lines, ok bool
}

// all makes the sum at once.
func (c *contentSum) all(lines bool) contentResult {
	for {
		more, err := c.step()
		if err != nil {
			return contentResult{}
		}
		if !more {
			return contentResult{c.hash.Sum64(), lines, true}
		}
	}
}

// sumAtOnce makes the sum of a binary whose file is small or in memory.
func (b *binary) sumAtOnce() {
	if b.sum != nil {
		b.summed(b.sum.all(b.content.lines))
	}
}

// summed records the sum over the file of a binary.
func (b *binary) summed(r contentResult) {
	b.sum, b.unsummed = nil, false
	if r.ok && r.lines == b.content.lines {
		b.content.sum, b.sharable = r.sum, !b.private
	}
}

// contentKey identifies the content of a binary's file. It never changes, since unwind tables are stored by it. If the sum was not known at
// the first call, it is the file itself, by whatever path.
func (b *binary) contentKey() string {
	if b.known == "" {
		key := b.key
		key.path = ""
		b.known = fmt.Sprint("file ", key)
		if b.sharable {
			b.known = fmt.Sprint("content ", b.content)
		}
	}
	return b.known
}

// le is the byte order of what is read and hashed.
var le = enc.LittleEndian
