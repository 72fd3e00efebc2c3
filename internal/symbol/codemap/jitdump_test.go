// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	byteorder "encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/codemap/dumptest"
)

var orders = map[string]byteorder.AppendByteOrder{"little": byteorder.LittleEndian, "big": byteorder.BigEndian}

func sampleDump(order byteorder.AppendByteOrder, large int) []byte {
	w := dumptest.New(order)
	w.Load(0x1000, 0x100, "first")
	w.Record(jitDebugInfo, 0x2000, 3, 0x2000, uint32(10), uint32(0), "/src/a.x", 0x2010, uint32(11), uint32(0), "\xff",
		0x2020, uint32(5), uint32(0), "/src/inlined.x")
	w.Record(4, 16, 16, 16, make([]byte, 32)) // unwinding info
	w.Load(0x2000, 0x100, "second")
	w.Load(0x3000, large, "large")
	w.Record(99, 1, 2, 3) // unknown
	w.Load(0x100000, 0x40, "last")
	return w.Data
}

func TestJitDump(t *testing.T) {
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			data := sampleDump(order, 100_000)
			for _, buf := range []int{128, 200, 64 << 10} {
				f, g := follow(NewJitDump, string(data))
				require.Empty(t, readAll(t, f, g, buf))
				require.Equal(t, uint64(len(data)), f.Read)
				require.Equal(t, 4, f.Spans.Count)
				for addr, want := range map[uint64]string{0x1000: "first", 0x20ff: "second", 0x3000 + 99_999: "large", 0x100000: "last"} {
					require.Equal(t, want, nameIn(t, f, addr))
				}
				require.Nil(t, f.Spans.Find(0x1100))
				for addr, want := range map[uint64]struct {
					file string
					line int64
				}{
					0x2000: {"/src/a.x", 10}, 0x200f: {"/src/a.x", 10}, 0x2010: {"/src/a.x", 11}, 0x2020: {"/src/inlined.x", 5},
					0x20ff: {"/src/inlined.x", 5}, 0x1000: {},
				} {
					file, line, err := f.Format.Line(f.Src, f.Spans.Find(addr), addr, false)
					require.NoError(t, err)
					require.Equal(t, want.file, file, "%#x", addr)
					require.Equal(t, want.line, line, "%#x", addr)
				}
				_, line, err := f.Format.Line(f.Src, f.Spans.Find(0x2000), 0x2000, true)
				require.NoError(t, err)
				require.EqualValues(t, 5, line, "V8 adds 0x40 to the addresses of lines")
			}
		})
	}
}

func TestJitDumpMoves(t *testing.T) {
	w := dumptest.New(byteorder.LittleEndian)
	w.Record(jitDebugInfo, 0x1000, 1, 0x1000, uint32(42), uint32(0), "/src/a.x")
	w.Load(0x1000, 0x100, "first")
	w.Move(0x1000, 0x5000, 0x100)
	f, g := follow(NewJitDump, string(w.Data))
	require.Empty(t, readAll(t, f, g, 64<<10))
	require.Nil(t, f.Spans.Find(0x1000))
	require.Equal(t, "first", nameIn(t, f, 0x50ff))
	file, line, err := f.Format.Line(f.Src, f.Spans.Find(0x5000), 0x5010, false)
	require.NoError(t, err)
	require.Equal(t, "/src/a.x", file)
	require.EqualValues(t, 42, line)
	w.Move(0x1000, 0x6000, 0x100)
	g.data = w.Data
	errs := readAll(t, f, g, 64<<10)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "code moves that was never there")
}

// TestJitDumpGrows writes a dump byte by byte: incomplete records are read later.
func TestJitDumpGrows(t *testing.T) {
	data := sampleDump(byteorder.LittleEndian, 100_000)
	f, g := follow(NewJitDump, "")
	for i := range data {
		if i > 1000 && i < len(data)-1000 && i%997 != 0 {
			continue // the code of the large one
		}
		g.data = data[:i+1]
		require.Empty(t, readAll(t, f, g, 64<<10))
	}
	require.Equal(t, 4, f.Spans.Count)
	w := &dumptest.Writer{AppendByteOrder: byteorder.LittleEndian, Data: data}
	w.Record(jitCodeClose)
	w.Load(0x7000, 16, "after the end")
	g.data = w.Data
	require.Empty(t, readAll(t, f, g, 64<<10))
	require.Equal(t, 4, f.Spans.Count, "nothing follows JIT_CODE_CLOSE")
}

func TestJitDumpLies(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte)
		want   string
	}{
		"no jitdump":   {func(b []byte) { copy(b, "\x7fELF") }, "it begins with 7f454c46, which is no jitdump"},
		"no header":    {func(b []byte) { byteorder.LittleEndian.PutUint32(b[8:], 8) }, "a header of 8 bytes"},
		"large header": {func(b []byte) { byteorder.LittleEndian.PutUint32(b[8:], 1<<30) }, "a header of 1073741824 bytes"},
		"no record":    {func(b []byte) { byteorder.LittleEndian.PutUint32(b[44:], 0) }, "record 0 at byte 40 has 0 bytes"},
		"large record": {func(b []byte) { byteorder.LittleEndian.PutUint32(b[44:], 1<<31) }, "record 0 at byte 40 has 2147483648 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			data := sampleDump(byteorder.LittleEndian, 100_000)
			c.change(data)
			f, g := follow(NewJitDump, string(data))
			errs := readAll(t, f, g, 64<<10)
			require.Len(t, errs, 1)
			require.ErrorContains(t, errs[0], "reading the jitdump /tmp/perf-1.map of process 1: "+c.want+"; what follows has no names")
			require.True(t, f.Broken)
			require.False(t, f.Behind(1<<20))
			require.Zero(t, f.Spans.Count)
		})
	}
	w := dumptest.New(byteorder.LittleEndian)
	w.Load(0x1000, 0x100, "first")
	w.Record(jitCodeLoad, uint32(1), uint32(1), 0x2000, 0x2000, 1<<40, 1, "too large")
	w.Record(jitCodeLoad, uint32(1))
	w.Record(jitCodeMove, uint32(1))
	w.Record(jitCodeLoad, uint32(1), uint32(1), -1, -1, 16, 1, "of the kernel")
	w.Load(0x3000, 0x100, "last")
	f, g := follow(NewJitDump, string(w.Data))
	errs := readAll(t, f, g, 64<<10)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "4 entries left out, the first: at byte ")
	require.Equal(t, 2, f.Spans.Count)
}

func FuzzJitDump(f *testing.F) {
	for _, order := range orders {
		f.Add(sampleDump(order, 300), 100)
	}
	w := dumptest.New(byteorder.LittleEndian)
	w.Load(0x1000, 16, "a")
	w.Move(0x1000, 0x1008, 16)
	w.Record(jitDebugInfo, 0x1000, -1, 1, uint32(1), uint32(0), "\xff")
	w.Load(0x1000, 16, "b")
	w.Record(jitCodeClose)
	f.Add(w.Data, 3)
	f.Fuzz(func(t *testing.T, data []byte, buf int) {
		whole, g := follow(NewJitDump, string(data))
		readAll(t, whole, g, 64<<10)
		checkSpans(t, whole)
		if len(data) > jitHeaderMin && byteorder.LittleEndian.Uint32(data[8:]) > 1<<10 {
			return // a header that small buffers do not hold
		}
		parts, g := follow(NewJitDump, string(data))
		readAll(t, parts, g, 1<<10+min(max(buf, 0), 1<<16))
		require.Equal(t, all(&whole.Spans), all(&parts.Spans))
	})
}
