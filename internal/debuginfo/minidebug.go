// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bufio"
	"bytes"
	enc "encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// maxMini bounds the inflated file in .gnu_debugdata, which has a symbol table and nothing else. It is held in memory.
const maxMini = 16 << 20

var errXZ = errors.New("not an xz stream as .gnu_debugdata has")

// MiniDebug returns the small ELF file with a symbol table that distributions put into .gnu_debugdata of a stripped binary. The error wraps
// [ErrNone] when there is none.
func MiniDebug(m elfimage.Image) (elfimage.Image, error) {
	f, sections, err := parse(m)
	if err != nil {
		return elfimage.Image{}, err
	}
	s := f.SectionNamed(sections, ".gnu_debugdata")
	if s == nil {
		return elfimage.Image{}, fmt.Errorf(".gnu_debugdata: %w", ErrNone)
	}
	if !f.Has(s.Off, s.Size) {
		return elfimage.Image{}, fmt.Errorf(".gnu_debugdata: %w", elfimage.ErrTruncated)
	}
	out, err := unxz(io.NewSectionReader(f.Src, int64(s.Off), int64(s.Size)), maxMini) //nolint:gosec // within the file
	if err != nil {
		return elfimage.Image{}, fmt.Errorf(".gnu_debugdata: %w", err)
	}
	return elfimage.Image{Src: bytes.NewReader(out), Size: uint64(len(out))}, nil
}

// unxz inflates one xz stream; see the .xz file format 1.2.1. It reads the blocks itself and leaves only their content to a library, which
// would allocate whatever dictionary a block claims to need.
func unxz(r io.Reader, limit int) ([]byte, error) {
	in := bufio.NewReader(r)
	var head [12]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if string(head[:6]) != "\xfd7zXZ\x00" || head[6] != 0 || crc32.ChecksumIEEE(head[6:8]) != le.Uint32(head[8:]) {
		return nil, errXZ
	}
	var out bytes.Buffer
	for {
		size, err := in.ReadByte()
		if err != nil {
			return nil, fmt.Errorf("block: %w", err)
		}
		if size == 0 { // the index
			return out.Bytes(), nil
		}
		if err := unxzBlock(in, size, head[7], &out, limit); err != nil {
			return nil, fmt.Errorf("block behind %d bytes: %w", out.Len(), err)
		}
	}
}

// unxzBlock inflates one block, whose header begins with its size.
func unxzBlock(in *bufio.Reader, size, check byte, out *bytes.Buffer, limit int) error {
	dictionary, err := readBlockHeader(in, size)
	if err != nil {
		return err
	}
	counted := &countingReader{in: in}
	content, err := lzma.Reader2Config{DictCap: int(max(min(dictionary, uint64(limit)), lzma.MinDictCap))}.NewReader2(counted)
	if err != nil {
		return err
	}
	before := out.Len()
	if _, err := io.Copy(out, io.LimitReader(content, int64(limit-before)+1)); err != nil {
		return err
	}
	if out.Len() > limit {
		return fmt.Errorf("more than %d bytes: %w", limit, ErrTooLarge)
	}
	padding := int(-counted.n & 3)
	var sum hash.Hash
	switch check {
	case 0x00:
	case 0x01:
		sum = crc32.NewIEEE()
	case 0x04:
		sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 0x0a: // SHA-256, which is not compared
		padding += 32
	default:
		return errXZ
	}
	if _, err := in.Discard(padding); err != nil || sum == nil {
		return err
	}
	sum.Write(out.Bytes()[before:]) //nolint:errcheck // never fails
	got := make([]byte, sum.Size())
	if _, err := io.ReadFull(in, got); err != nil {
		return err
	}
	want := sum.Sum(nil)
	for i := range want {
		if got[i] != want[len(want)-1-i] { // little-endian
			return errors.New("checksum is wrong")
		}
	}
	return nil
}

// readBlockHeader returns the size of the dictionary of a block that is compressed by LZMA2 alone.
func readBlockHeader(in io.Reader, size byte) (dictionary uint64, err error) {
	b := make([]byte, (int(size)+1)*4)
	b[0] = size
	if _, err := io.ReadFull(in, b[1:]); err != nil {
		return 0, err
	}
	n := len(b) - 4
	if crc32.ChecksumIEEE(b[:n]) != le.Uint32(b[n:]) {
		return 0, errXZ
	}
	flags, rest := b[1], b[2:n]
	for _, has := range []byte{0x40, 0x80} { // compressed and uncompressed size
		if flags&has != 0 {
			_, k := enc.Uvarint(rest)
			if k <= 0 {
				return 0, errXZ
			}
			rest = rest[k:]
		}
	}
	// One filter, LZMA2, with one byte of properties.
	if flags&0x3f != 0 || len(rest) < 3 || rest[0] != 0x21 || rest[1] != 1 || rest[2] > 40 {
		return 0, fmt.Errorf("filters other than LZMA2: %w", errXZ)
	}
	if rest[2] == 40 {
		return 1<<32 - 1, nil
	}
	return (2 | uint64(rest[2]&1)) << (rest[2]/2 + 11), nil
}

// countingReader counts what is read.
type countingReader struct {
	in *bufio.Reader
	n  int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}
