// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"debug/elf"
	"fmt"
	"hash/maphash"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// maxTold bounds what is read of a file to tell what it says about its frames and
// functions, in bytes. That of a binary of 100 MB takes some 20 MB, of one in Go 30 MB.
const maxTold = 128 << 20

// sumBytes is how much of it is read at once.
const sumBytes = 16 << 10

// tellingSections are those that unwind tables and names of functions are made of,
// by the names that one of them has.
var tellingSections = [][]string{
	{".eh_frame_hdr"}, {".eh_frame"}, {".debug_frame"}, {".gopclntab", ".data.rel.ro.gopclntab"},
	{".symtab"}, {".strtab"}, {".dynsym"}, {".dynstr"}, {".gnu_debugdata"},
}

// tellingSeed makes sums that nobody can foresee, so that no file can be made
// to have another one's.
var tellingSeed = maphash.MakeSeed()

// content is what two files have in common that are taken to be one binary.
// Containers hold one file under many inodes. Its build id alone does not tell:
// a copy may be damaged, or made by somebody who wants to have a say in the
// profiles of others, and what it says of its frames and functions would be taken
// for that of all others.
type content struct {
	id   model.BuildID
	size uint64
	told uint64 // sum over what unwind tables and names of functions are made of
}

// contentOf tells what is in a file; ok is false where that is not known well
// enough for another file to be taken to be the same. Without a build id it would
// rest on the hash of head and tail alone.
func contentOf(f *elfimage.File, id model.BuildID) (c content, ok bool) {
	if id.HTLHash == "" || id.GNU == "" && id.Go == "" {
		return content{}, false
	}
	sum, ok := sumTold(f)
	return content{id: id, size: f.Size, told: sum}, ok
}

// sumTold sums over what unwind tables and names of functions are made of. ok is false where
// sections were stripped, lie outside of the file or exceed the bound.
func sumTold(f *elfimage.File) (sum uint64, ok bool) {
	all, err := f.Sections()
	if err != nil || len(all) == 0 {
		return 0, false
	}
	var hash maphash.Hash
	hash.SetSeed(tellingSeed)
	total := uint64(0)
	var buf []byte
	for i, names := range tellingSections {
		s := f.SectionNamed(all, names...)
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		if total += s.Size; s.Size > maxTold || total > maxTold {
			return 0, false
		}
		if buf == nil {
			buf = make([]byte, sumBytes)
		}
		for _, n := range []uint64{uint64(i), s.Addr, s.Off, s.Size} {
			hash.Write(le.AppendUint64(nil, n)) //nolint:errcheck // never fails
		}
		err := f.Chunks(buf, s.Off, s.Size, 1, func(_ uint64, b []byte) bool {
			hash.Write(b) //nolint:errcheck // never fails
			return true
		})
		if err != nil {
			return 0, false
		}
	}
	return hash.Sum64(), true
}

// contentKey identifies what is in the file of a binary.
func (b *binary) contentKey() string {
	if b.sharable {
		return fmt.Sprint("content ", b.content)
	}
	return fmt.Sprint("file ", b.key)
}
