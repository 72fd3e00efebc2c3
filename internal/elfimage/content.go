// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is the cause when a section would be inflated beyond a bound.
var ErrTooLarge = errors.New("exceeds the bound")

// SectionImage returns the content of a section: a part of the file, or, if it is compressed (SHF_COMPRESSED), at most limit inflated bytes
// in memory.
func (f *File) SectionImage(s *Section, limit uint64) (Image, error) {
	if !f.Has(s.Off, s.Size) {
		return Image{}, ErrTruncated
	}
	raw := io.NewSectionReader(f.Src, int64(s.Off), int64(s.Size)) //nolint:gosec // Has() keeps both below an int64
	if s.Flags&elf.SHF_COMPRESSED == 0 {
		return Image{Src: raw, Size: s.Size}, nil
	}
	in, size, err := f.Inflate(s)
	if err != nil {
		return Image{}, err
	}
	if size > limit {
		return Image{}, fmt.Errorf("inflating %d to %d bytes: %w of %d", s.Size, size, ErrTooLarge, limit)
	}
	out, err := io.ReadAll(io.LimitReader(in, int64(size))) //nolint:gosec // below limit
	if err != nil {
		return Image{}, fmt.Errorf("inflating %d bytes: %w", s.Size, err)
	}
	return Image{Src: bytes.NewReader(out), Size: uint64(len(out))}, nil
}

// Inflate returns the content of a compressed section (SHF_COMPRESSED) as a stream, and the size that it claims to have: the stream may end
// earlier, and what follows must not be read.
func (f *File) Inflate(s *Section) (io.Reader, uint64, error) {
	if !f.Has(s.Off, s.Size) {
		return nil, 0, ErrTruncated
	}
	size, err := f.inflatedSize(s)
	if err != nil {
		return nil, 0, err
	}
	raw := io.NewSectionReader(f.Src, int64(s.Off), int64(s.Size)) //nolint:gosec // Has() keeps both below an int64
	in, err := f.inflate(raw, s.Size)
	if err != nil {
		return nil, 0, fmt.Errorf("inflating %d bytes: %w", s.Size, err)
	}
	return in, size, nil
}

// inflatedSize reads the size from the header of a compressed section,
// Elf64_Chdr or Elf32_Chdr.
func (f *File) inflatedSize(s *Section) (uint64, error) {
	var b [24]byte
	n := f.Pick(24, 12)
	if s.Size < uint64(n) {
		return 0, ErrTruncated
	}
	if err := f.Read(b[:n], s.Off); err != nil {
		return 0, err
	}
	return f.Word(b[f.Pick(8, 4):]), nil
}

// inflate has debug/elf, which supports zlib and zstd, read one compressed section, in a file that contains only that section.
func (f *File) inflate(raw *io.SectionReader, size uint64) (io.Reader, error) {
	head := loneSection(f.Is64, size)
	file, err := elf.NewFile(&spliced{head: head, tail: raw})
	if err != nil {
		return nil, err
	}
	return file.Sections[1].Open(), nil
}

// loneSection makes the headers of an ELF file whose second section is a
// compressed one of the given size, right behind them. The first section holds
// the names: one zero byte of the header, the name of both.
func loneSection(is64 bool, size uint64) []byte {
	if !is64 {
		b := make([]byte, 52+2*40)
		copy(b, elf.ELFMAG+"\x01\x01\x01")
		le.PutUint32(b[20:], 1)
		le.PutUint32(b[32:], 52) // e_shoff
		le.PutUint16(b[40:], 52)
		le.PutUint16(b[46:], 40)
		le.PutUint16(b[48:], 2)
		names := b[52:]
		le.PutUint32(names[4:], uint32(elf.SHT_STRTAB))
		le.PutUint32(names[16:], elf.EI_ABIVERSION)
		le.PutUint32(names[20:], 1)
		s := b[52+40:]
		le.PutUint32(s[4:], uint32(elf.SHT_PROGBITS))
		le.PutUint32(s[8:], uint32(elf.SHF_COMPRESSED))
		le.PutUint32(s[16:], uint32(len(b)))
		le.PutUint32(s[20:], uint32(size))
		return b
	}
	b := make([]byte, 64+2*64)
	copy(b, elf.ELFMAG+"\x02\x01\x01")
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[40:], 64) // e_shoff
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], 2)
	names := b[64:]
	le.PutUint32(names[4:], uint32(elf.SHT_STRTAB))
	le.PutUint64(names[24:], elf.EI_ABIVERSION)
	le.PutUint64(names[32:], 1)
	s := b[64+64:]
	le.PutUint32(s[4:], uint32(elf.SHT_PROGBITS))
	le.PutUint64(s[8:], uint64(elf.SHF_COMPRESSED))
	le.PutUint64(s[24:], uint64(len(b)))
	le.PutUint64(s[32:], size)
	return b
}

// spliced is a file of a head in memory and a tail.
type spliced struct {
	head []byte
	tail io.ReaderAt
}

func (s *spliced) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(s.head)) {
		n = copy(b, s.head[off:])
	}
	if n == len(b) {
		return n, nil
	}
	more, err := s.tail.ReadAt(b[n:], off+int64(n)-int64(len(s.head)))
	return n + more, err
}
