// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// symbolFile is a file with a symbol table and its names alone.
type symbolFile struct {
	symbols, names []byte
}

func (f *symbolFile) add(name string, bind elf.SymBind, kind elf.SymType, addr, size uint64) {
	var e [24]byte
	if len(f.names) == 0 {
		f.names = []byte{0}
	}
	le.PutUint32(e[:], uint32(len(f.names)))
	e[4] = byte(bind)<<4 | byte(kind)
	le.PutUint16(e[6:], 1)
	le.PutUint64(e[8:], addr)
	le.PutUint64(e[16:], size)
	f.symbols = append(f.symbols, e[:]...)
	f.names = append(append(f.names, name...), 0)
}

func (f *symbolFile) builder(text ...elfimage.Span) (*Builder, []Source) {
	image := append(bytes.Clone(f.symbols), f.names...)
	file := &elfimage.File{Image: imageOf(image), Is64: true}
	size := uint64(len(f.symbols))
	return &Builder{
		File: file, Text: text, Buf: make([]byte, 4096), Names: Reader{Cache: NewPages(0), Owner: 1, Image: file.Image},
		Reserve: func(int, int64) error { return nil },
	}, []Source{{size: size, entsize: 24, strings: elfimage.Span{Start: size, End: uint64(len(image))}}}
}

// randomSymbols makes functions that nest, aliases of them, sizes of 0, and labels in them and elsewhere.
func randomSymbols(r *rand.Rand, n int, from, to uint64) *symbolFile {
	f := &symbolFile{}
	for i := range n {
		addr := from + r.Uint64N(to-from)
		size := r.Uint64N(64)
		kind, bind := elf.STT_FUNC, elf.SymBind(r.IntN(3))
		switch r.IntN(10) {
		case 0:
			kind, size = elf.STT_NOTYPE, 0
		case 1:
			kind = elf.STT_NOTYPE
		case 2:
			size = 0
		case 3:
			size = r.Uint64N(2000) // contains others
		case 4:
			kind = elf.STT_OBJECT
		}
		name := "f" + strconv.Itoa(i)
		f.add(name, bind, kind, addr, size)
		if r.IntN(4) == 0 {
			f.add("_"+name, elf.SymBind(r.IntN(3)), kind, addr, r.Uint64N(3)*size)
		}
	}
	return f
}

// TestPartialAnswersAsWhole compares each address of random tables with the whole table.
func TestPartialAnswersAsWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const from, to = 0x1000, 0x5000
	text := []elfimage.Span{{Start: from, End: 0x3000}, {Start: 0x3100, End: to}}
	for _, n := range []int{0, 1, 5, 40, 400, 2000} {
		f := randomSymbols(r, n, from, to)
		b, sources := f.builder(text...)
		whole, err := b.Build(sources)
		require.NoError(t, err)
		if whole == nil {
			whole = &Table{Base: from}
		}
		held := &Table{IsPartial: true}
		for round := range 30 {
			addrs := make([]uint64, 1+r.IntN(40))
			for i := range addrs {
				addrs[i] = from - 8 + r.Uint64N(to-from+16)
			}
			pb, sources := f.builder(text...)
			part, err := pb.Partial(sources, addrs)
			require.NoError(t, err)
			for _, addr := range addrs {
				sym, known := part.LookupReturn(addr)
				require.True(t, known, "%#x", addr)
				require.Equal(t, whole.FindReturn(addr), sym, "%d symbols, round %d: %#x", n, round, addr)
			}
			held.Base, held.strings = part.Base, part.strings
			held.Merge(part)
		}
		known := 0
		for addr := uint64(from); addr < to; addr++ {
			sym, ok := held.lookup(addr)
			if ok {
				known++
				require.Equal(t, whole.Find(addr), sym, "%d symbols: %#x", n, addr)
			}
		}
		require.NotZero(t, known)
		t.Logf("%d symbols: %d of %d addresses known in %d ranges", n, known, to-from, len(held.answers))
	}
}

// TestPartialOfManyLabels checks that marks without a size do not hide the function that encloses an address, and that the memory of a pass
// is bounded.
func TestPartialOfManyLabels(t *testing.T) {
	f := &symbolFile{}
	f.add("outer", elf.STB_GLOBAL, elf.STT_FUNC, 0x1000, 0x1000)
	for i := range uint64(200) {
		f.add("label", elf.STB_LOCAL, elf.STT_NOTYPE, 0x1100+i, 0)
	}
	b, sources := f.builder(elfimage.Span{Start: 0x1000, End: 0x4000})
	part, err := b.Partial(sources, []uint64{0x1f00})
	require.NoError(t, err)
	sym, known := part.lookup(0x1f00)
	require.True(t, known)
	require.NotNil(t, sym)
	require.Equal(t, "outer", b.name(*sym))

	f = &symbolFile{}
	f.add("first", elf.STB_GLOBAL, elf.STT_FUNC, 0x1000, 0x10)
	for i := range uint64(maxWindowSymbols + 1) {
		f.add("label", elf.STB_LOCAL, elf.STT_NOTYPE, 0x1100+i, 0)
	}
	b, sources = f.builder(elfimage.Span{Start: 0x1000, End: 0x1000000})
	_, err = b.Partial(sources, []uint64{0x900000})
	require.ErrorIs(t, err, reason.ErrTooLarge)
}
