// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"debug/elf"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// buildEhFrame builds the table of an x86-64 binary with the given .eh_frame.
func buildEhFrame(t *testing.T, content []byte) (*Table, error) {
	t.Helper()
	table, err := Build(imageOf(binaryWith(elf.EM_X86_64, ".eh_frame", content)), Limits{})
	if err == nil {
		sound(t, table)
	}
	return table, err
}

// TestBuildIsGivenUp checks that a build in progress does not delay the shutdown.
func TestBuildIsGivenUp(t *testing.T) {
	asked := 0
	table, err := Build(imageOf(binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes())), Limits{Stop: func() bool { asked++; return true }})
	require.ErrorIs(t, err, ErrStopped)
	require.Nil(t, table, "a part of a table cannot be kept")
	require.Equal(t, 1, asked)
}

// TestOverlap checks that of two functions that overlap the later one wins.
func TestOverlap(t *testing.T) {
	table, err := buildEhFrame(t, ehFrameBytes())
	require.NoError(t, err)
	require.NoError(t, table.Err)
	require.Equal(t, 2, table.Functions)
	first := Rule{CFA: CFAStackPointer, CFAOffset: 8, RA: Saved, RAOffset: -8}
	for off, want := range map[uint64]Rule{
		0x0f: {}, 0x10: first,
		0x11:  {CFA: CFAStackPointer, CFAOffset: 16, RA: Saved, RAOffset: -8, FP: Saved, FPOffset: -16},
		0xff:  {CFA: CFAStackPointer, CFAOffset: 16, RA: Saved, RAOffset: -8, FP: Saved, FPOffset: -16},
		0x100: {CFA: CFAEnd}, 0x11f: {CFA: CFAEnd}, 0x120: {},
	} {
		require.Equal(t, want, table.Lookup(fuzzText+off), "%#x", off)
	}
}

// TestPrecedence checks that a better source keeps its code, and that a worse one adds what is before or behind it, but not both.
func TestPrecedence(t *testing.T) {
	b := &builder{table: &Table{Start: 0, End: PageBytes, Pages: make([]Page, 1)}, text: []elfimage.Span{{Start: 0, End: PageBytes}}}
	good := b.source(fixed(sp(8)), SourceEhFrame)
	bad := b.source(fixed(sp(16)), SourceDebugFrame)
	b.add(0x100, 0x200, 0, good)
	b.add(0x80, 0x120, 0, bad)
	b.add(0x110, 0x120, 0, bad)
	b.add(0x180, 0x280, 0, bad)
	b.add(0x200, 0x240, 0, good)
	b.add(PageBytes-4, PageBytes+8, 0, bad)
	b.add(PageBytes, PageBytes+8, 0, bad)
	require.NoError(t, b.pack(Limits{}.withDefaults()))
	sound(t, b.table)
	for at, want := range map[uint64]Rule{
		0x7f: {}, 0x80: sp(16), 0xff: sp(16), 0x100: sp(8), 0x11f: sp(8), 0x1ff: sp(8), 0x23f: sp(8), 0x240: {}, 0x27f: {},
		PageBytes - 5: {}, PageBytes - 1: sp(16),
	} {
		require.Equal(t, want, b.table.Lookup(at), "%#x", at)
	}
	require.Equal(t, SourceEhFrame|SourceDebugFrame, b.table.Sources)
	require.Equal(t, "eh_frame+debug_frame", b.table.Sources.String())
}

// fixed yields one rule everywhere.
type fixed Rule

func (f fixed) emit(_ uint32, p *packer) error {
	p.span(0, math.MaxUint64, Rule(f))
	return nil
}

// TestBadEhFrame checks that errors name their place, and that functions before it are kept.
func TestBadEhFrame(t *testing.T) {
	good := append(cieBytes("zR", 1, peAbsolute), []byte(nil)...)
	good = append(good, fdeBytes(len(good), fuzzText+0x10, 0x20)...)
	huge := append(bytes.Repeat([]byte{0xff}, 4), 0, 0, 0, 0, 0, 0, 0, 0x80) // 2^63 bytes
	cyclic := sized(append(le.AppendUint32(nil, 4), make([]byte, 20)...))    // an FDE that points to itself
	for name, c := range map[string]struct {
		tail  []byte
		cause error
		says  string
	}{
		"2^63 bytes":        {huge, errShort, ".eh_frame at 0x2f: entry of 9223372036854775808 bytes"},
		"longer than all":   {[]byte{200, 0, 0, 0, 1, 2, 3, 4}, errShort, ".eh_frame at 0x2f"},
		"shorter than a id": {[]byte{2, 0, 0, 0, 1, 2, 3, 4}, errShort, ".eh_frame at 0x2f"},
		"cyclic":            {cyclic, errNotCIE, ".eh_frame at 0x2f: common information entry at 0x2f"},
		"CIE outside":       {sized(append(le.AppendUint32(nil, 0xf0000000), make([]byte, 20)...)), errNotCIE, ".eh_frame at 0x2f"},
		"ends after it": {sized(append(le.AppendUint32(nil, uint32(len(good)+4)), make([]byte, 4)...)), errShort,
			".eh_frame at 0x2f"},
		"bad instruction": {fdeBytes(len(good), fuzzText+0x100, 0x20, 0x3f, 0), errOpcode, ".eh_frame at 0x2f, code at 0x1100: instruction 0x3f"},
	} {
		table, err := buildEhFrame(t, append(bytes.Clone(good), c.tail...))
		require.NoError(t, err, name)
		require.ErrorIs(t, table.Err, c.cause, name)
		require.ErrorContains(t, table.Err, c.says, name)
		require.Equal(t, 1, table.Skipped, name)
		require.Equal(t, int32(8), table.Lookup(fuzzText+0x2f).CFAOffset, name)
	}
}

func TestBadCIE(t *testing.T) {
	for name, c := range map[string]struct {
		cie   []byte
		cause error
	}{
		"version":            {sized([]byte{0, 0, 0, 0, 9, 0, 1, 0x78, 16}), errVersion},
		"augmentation":       {cieBytes("x"), errAugmentation},
		"augmentation data":  {cieBytes("zR", 100), errShort},
		"no text":            {sized([]byte{0, 0, 0, 0, 1, 'z', 'R'}), errShort},
		"personality":        {cieBytes("zPR", 3, 0x07, 0, 0), errShort},
		"encoding":           {cieBytes("zR", 1, 0x80|pePCRel|peS32), errEncoding},
		"data-relative":      {cieBytes("zR", 1, peDataRel|peS32), errEncoding},
		"remembers too much": {append(cieBytes("zR", 1, peAbsolute)[:0:0], sized(append([]byte{0, 0, 0, 0, 1, 0, 1, 0x78, 16}, bytes.Repeat([]byte{cfaRememberState}, 40)...))...), errNested},
	} {
		_, err := buildEhFrame(t, append(c.cie, fdeBytes(len(c.cie), fuzzText, 16)...))
		require.ErrorIs(t, err, ErrDamaged, name)
		require.ErrorIs(t, err, c.cause, name)
	}
}

// TestSignal takes signal trampolines from the augmentation, with a
// personality before it.
func TestSignal(t *testing.T) {
	cie := cieBytes("zPLRS", 7, peS32, 1, 2, 3, 4, peOmit, peAbsolute)
	table, err := buildEhFrame(t, append(cie, fdeBytes(len(cie), fuzzText, 16)...))
	require.NoError(t, err)
	require.NoError(t, table.Err)
	require.Equal(t, Rule{CFA: CFASignal}, table.Lookup(fuzzText+15))
}

// TestForeignReturn checks that functions whose return address is in another register than calls put it in are unknown.
func TestForeignReturn(t *testing.T) {
	cie := cieBytes("zR", 1, peAbsolute)
	cie[14] = 3
	table, err := buildEhFrame(t, append(cie, fdeBytes(len(cie), fuzzText, 16)...))
	require.NoError(t, err)
	require.Equal(t, Rule{}, table.Lookup(fuzzText))
}

func TestBadFiles(t *testing.T) {
	_, err := Build(imageOf([]byte("#!/bin/sh")), Limits{})
	require.ErrorIs(t, err, elfimage.ErrNotELF)
	_, err = Build(imageOf(binaryWith(elf.EM_X86_64, ".text", nil)), Limits{})
	require.ErrorIs(t, err, ErrNone)
	_, err = Build(imageOf(binaryWith(elf.EM_RISCV, ".eh_frame", ehFrameBytes())), Limits{})
	require.ErrorIs(t, err, ErrUnsupported)
	far := binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes())
	le.PutUint64(far[64+40:], 1<<40)
	_, err = Build(imageOf(far), Limits{})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Build(imageOf(binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes())), Limits{Rows: 3})
	require.ErrorIs(t, err, ErrTooLarge)
	cut := binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes())
	_, err = Build(imageOf(cut[:len(cut)-20]), Limits{})
	require.ErrorIs(t, err, elfimage.ErrTruncated)
	table, err := Build(imageOf(binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes())), Limits{},
		imageOf(binaryWith(elf.EM_AARCH64, ".debug_frame", ehFrameBytes())))
	require.NoError(t, err)
	require.ErrorIs(t, table.Err, ErrUnsupported, "a debug file of another machine")
}

// TestBoundedWork reads functions by the thousand that share one long CIE, and
// CIEs that overlap: instructions of a CIE run once.
func TestBoundedWork(t *testing.T) {
	long := sized(append([]byte{0, 0, 0, 0, 1, 0, 1, 0x78, 16, cfaDefCFA, 7, 8}, bytes.Repeat([]byte{cfaNop}, 60<<10)...))
	content := long
	for i := range uint64(50000) {
		body := le.AppendUint32(nil, uint32(len(content)+4))
		body = le.AppendUint64(le.AppendUint64(body, fuzzText+i), 1)
		content = append(content, sized(body)...)
	}
	table, err := buildEhFrame(t, content)
	require.NoError(t, err)
	require.NoError(t, table.Err)
	file := binaryWith(elf.EM_X86_64, ".eh_frame", content)
	f, err := elfimage.Parse(imageOf(file))
	require.NoError(t, err)
	b := &builder{table: &Table{}}
	require.NoError(t, b.span(f, Limits{}.withDefaults()))
	a, err := archOf(f.Machine, f.Is64)
	require.NoError(t, err)
	b.open(f, a, nil)
	require.NoError(t, b.pack(Limits{}.withDefaults()))
	section, ok := b.sources[0].(*section)
	require.True(t, ok)
	require.Equal(t, 50000, len(section.cies)+b.table.Functions-1)
	require.Less(t, section.work, uint64(2*len(content)), "entries are read twice, the CIE once")

	// Each function has a CIE of its own, of 64 KiB that are nearly the same for all.
	nested := bytes.Repeat([]byte{0xff, 0xff, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0x78}, 5000)
	content = append(sized(append([]byte{0, 0, 0, 0}, nested...)), make([]byte, 64<<10)...)
	for i := range 5000 {
		body := le.AppendUint32(nil, uint32(len(content)+4-8-12*i))
		body = le.AppendUint64(le.AppendUint64(body, fuzzText), 1)
		content = append(content, sized(body)...)
	}
	table, err = buildEhFrame(t, content)
	require.NoError(t, err)
	require.ErrorIs(t, table.Err, errWork)
}
