// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func imageOf(b []byte) Image { return Image{Src: bytes.NewReader(b), Size: uint64(len(b))} }

// goTool returns the Go tool, a real binary that every developer has.
func goTool(t testing.TB) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(os.Getenv("GOROOT"), "bin", "go"))
	require.NoError(t, err)
	if len(all) == 1 {
		return all[0]
	}
	self, err := os.Executable()
	require.NoError(t, err)
	return self
}

// TestAgainstStandard compares headers with those that debug/elf reads.
func TestAgainstStandard(t *testing.T) {
	path := goTool(t)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	want, err := elf.NewFile(file)
	if err != nil {
		t.Skipf("programs are no ELF files here: %v", err)
	}
	st, err := file.Stat()
	require.NoError(t, err)
	f, err := Parse(Image{Src: file, Size: uint64(st.Size())})
	require.NoError(t, err)
	require.Equal(t, want.Machine, f.Machine)
	require.Equal(t, want.Type, f.Type)
	require.Equal(t, want.Class == elf.ELFCLASS64, f.Is64)
	require.Len(t, f.Progs, len(want.Progs))
	for i, p := range want.Progs {
		require.Equal(t, Prog{p.Type, p.Flags, p.Off, p.Vaddr, p.Filesz, p.Memsz}, f.Progs[i])
	}
	sections, err := f.Sections()
	require.NoError(t, err)
	require.Len(t, sections, len(want.Sections))
	for i, s := range want.Sections {
		require.Equal(t, s.Type, sections[i].Type)
		require.Equal(t, []uint64{s.Addr, s.Offset, s.FileSize, s.Entsize}, []uint64{sections[i].Addr, sections[i].Off, sections[i].Size, sections[i].Entsize})
		require.Equal(t, s.Flags, sections[i].Flags)
	}
	require.Equal(t, want.Section(".text").Addr, f.SectionNamed(sections, ".nothing", ".text").Addr)
	require.Nil(t, f.SectionNamed(sections, ".tex"))
	for _, s := range sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && s.Size > 0 {
			off, ok := f.OffsetOf(s.Addr)
			require.True(t, ok)
			require.Equal(t, s.Off, off)
			addr, ok := f.AddressOf(s.Off)
			require.True(t, ok)
			require.Equal(t, s.Addr, addr)
		}
	}
}

// compressed makes a file of one section of the given compression.
func compressed(t testing.TB, is64 bool, content []byte, claims uint64) (*File, *Section) {
	t.Helper()
	var b bytes.Buffer
	if is64 {
		b.Write(le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, uint64(elf.COMPRESS_ZLIB)), claims), 1))
	} else {
		b.Write(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, uint32(elf.COMPRESS_ZLIB)), uint32(claims)), 1))
	}
	z := zlib.NewWriter(&b)
	_, err := z.Write(content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	s := &Section{Flags: elf.SHF_COMPRESSED, Type: elf.SHT_PROGBITS, Off: 3, Size: uint64(b.Len())}
	return &File{Image: imageOf(append([]byte("abc"), b.Bytes()...)), Is64: is64}, s
}

func TestSectionImage(t *testing.T) {
	content := bytes.Repeat([]byte("some content "), 1000)
	for _, is64 := range []bool{true, false} {
		f, s := compressed(t, is64, content, uint64(len(content)))
		img, err := f.SectionImage(s, 1<<20)
		require.NoError(t, err)
		got := make([]byte, img.Size)
		require.NoError(t, img.Read(got, 0))
		require.Equal(t, content, got)

		_, err = f.SectionImage(s, 100)
		require.ErrorIs(t, err, ErrTooLarge)
		f, s = compressed(t, is64, content, 50) // has more than it claims
		img, err = f.SectionImage(s, 100)
		require.NoError(t, err)
		require.EqualValues(t, 50, img.Size)
		s.Size = math.MaxUint64
		_, err = f.SectionImage(s, 100)
		require.ErrorIs(t, err, ErrTruncated)
		s.Size = 5
		_, err = f.SectionImage(s, 100)
		require.ErrorIs(t, err, ErrTruncated)
	}
	f := &File{Image: imageOf([]byte("abcdef")), Is64: true}
	img, err := f.SectionImage(&Section{Off: 2, Size: 3}, 1)
	require.NoError(t, err, "what is not compressed is not copied")
	var b [3]byte
	require.NoError(t, img.Read(b[:], 0))
	require.Equal(t, "cde", string(b[:]))
	require.ErrorIs(t, img.Read(b[:], 1), ErrTruncated)
}

func TestBadHeaders(t *testing.T) {
	good := loneSection(true, 0)
	_, err := Parse(imageOf(good))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		cause  error
	}{
		"short":      {func(b []byte) []byte { return b[:51] }, ErrNotELF},
		"short 64":   {func(b []byte) []byte { return b[:63] }, ErrTruncated},
		"no magic":   {func(b []byte) []byte { b[0] = 0; return b }, ErrNotELF},
		"big-endian": {func(b []byte) []byte { b[elf.EI_DATA] = 2; return b }, ErrByteOrder},
		"class":      {func(b []byte) []byte { b[elf.EI_CLASS] = 3; return b }, ErrNotELF},
		"far": {func(b []byte) []byte {
			le.PutUint64(b[32:], 1<<63)
			le.PutUint16(b[54:], 56)
			le.PutUint16(b[56:], 1)
			return b
		}, ErrTruncated},
	} {
		_, err := Parse(imageOf(c.change(bytes.Clone(good))))
		require.ErrorIs(t, err, c.cause, name)
	}
}

// FuzzFile reads everything in a hostile file.
func FuzzFile(f *testing.F) {
	f.Add(loneSection(true, 10))
	f.Add(loneSection(false, 10))
	file, s := compressed(f, true, []byte("content"), 7)
	b := make([]byte, s.Size)
	require.NoError(f, file.Read(b, s.Off))
	f.Add(append(loneSection(true, s.Size), b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		f, err := Parse(imageOf(b))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.LessOrEqual(t, len(f.Progs), maxProgs)
		d, err := ReadDynamic(f)
		require.LessOrEqual(t, len(d), maxDynamic)
		require.True(t, err == nil || d == nil)
		sections, err := f.Sections()
		if err != nil {
			return
		}
		f.Executable(sections)
		for i := range sections {
			img, err := f.SectionImage(&sections[i], 1<<16)
			require.True(t, err != nil || sections[i].Flags&elf.SHF_COMPRESSED == 0 || img.Size <= 1<<16)
		}
		buf := make([]byte, 1<<12)
		off, size, ok := FindPclntab(f, sections, buf)
		if !ok {
			return
		}
		table, header, err := ParsePclntab(f, off, size, func(int, int64) error { return nil })
		if err == nil && table.ResolveText(f, sections, header, buf) == nil {
			require.LessOrEqual(t, table.Entry(0), table.Entry(table.Len()))
		}
	})
}
