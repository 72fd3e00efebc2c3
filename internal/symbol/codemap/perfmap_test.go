// SPDX-License-Identifier: Apache-2.0

package codemap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// growing is a file in memory.
type growing struct {
	data  []byte
	reads int
}

func (g *growing) ReadAt(buf []byte, off int64) (int, error) {
	g.reads++
	return bytes.NewReader(g.data).ReadAt(buf, off)
}

func (*growing) Close() error            { return nil }
func (g *growing) Size() (uint64, error) { return uint64(len(g.data)), nil }

// follow makes a file that is read as the engine does, with a small buffer.
func follow(fresh func() Format, data string) (*File, *growing) {
	g := &growing{data: []byte(data)}
	f := &File{Path: "/tmp/perf-1.map of process 1", Fresh: fresh, Src: g}
	f.Restart()
	return f, g
}

// readAll reads a file to its end in chunks.
// directly makes a call that reads a file: no lock is held.
func directly(read func()) { read() }

func readAll(t testing.TB, f *File, g *growing, buf int) (errs []error) {
	t.Helper()
	for before := ^uint64(0); before != f.Read && !f.Broken; {
		before = f.Read
		_, _, err := f.Grow(uint64(len(g.data)), 1<<20, make([]byte, buf), directly)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func nameIn(t testing.TB, f *File, addr uint64) string {
	t.Helper()
	s := f.Spans.Find(addr)
	if s == nil {
		return ""
	}
	name, err := f.Format.Name(f.Src, s)
	require.NoError(t, err)
	return name
}

func TestPerfMapLines(t *testing.T) {
	for _, c := range []struct {
		line, name  string
		start, size uint64
	}{
		{"7f049c005900 2b0 JS:*foo [eval]:2:13", "JS:*foo [eval]:2:13", 0x7f049c005900, 0x2b0},
		{"18c4000 300 Builtin:DeoptimizationEntry_Eager", "Builtin:DeoptimizationEntry_Eager", 0x18c4000, 0x300},
		{"0x00007f8d8cec7620 0x00000000000000d8 long Hot.hot(long)", "long Hot.hot(long)", 0x7f8d8cec7620, 0xd8},
		{"0x00007f8d8c938c00 0x0000000000007530 StubRoutines (1)", "StubRoutines (1)", 0x7f8d8c938c00, 0x7530},
		{"7F8D8CEC7620 D8 LBusy;::hot\r", "LBusy;::hot", 0x7f8d8cec7620, 0xd8},
		{"  1000\t20  two  blanks ", "two  blanks", 0x1000, 0x20},
		{"1000 20 ключ", "ключ", 0x1000, 0x20},
	} {
		f, g := follow(NewPerfMap, c.line+"\n")
		require.Empty(t, readAll(t, f, g, 64<<10), c.line)
		require.Equal(t, 1, f.Spans.Count, c.line)
		s := f.Spans.Find(c.start + c.size - 1)
		require.NotNil(t, s, c.line)
		require.Equal(t, c.start, s.Start)
		require.EqualValues(t, c.size, s.size)
		require.Equal(t, c.name, nameIn(t, f, c.start))
	}
}

func TestPerfMapLies(t *testing.T) {
	for _, line := range []string{
		"", "x", "1000", "1000 20", "1000 20 ", "zz 20 name", "1000 zz name", "-1000 20 name", "1000 -20 name", "11112222333344445 1 name",
		"1000 100000000 larger than any code", "ffffffff81000000 20 of the kernel", "7fffffffffffffff 2 beyond the end", "0 20 nowhere",
		"0x 20 name", "root:$6$secret:1:2:3", strings.Repeat("1", 20<<10), "1000 20 " + strings.Repeat("n", 20<<10),
	} {
		f, g := follow(NewPerfMap, "100 10 before\n"+line+"\n200 10 after\n")
		errs := readAll(t, f, g, 64<<10)
		require.Len(t, errs, 1, "%.40q", line)
		require.ErrorContains(t, errs[0], "reading the perf map /tmp/perf-1.map of process 1: 1 entries left out, the first: at byte 14: ")
		require.NotContains(t, errs[0].Error(), "secret", "the content of another file is not logged")
		var why *reason.Error
		require.True(t, errors.As(errs[0], &why))
		require.Equal(t, reason.BadCodeMap, why.Cause)
		require.Equal(t, 2, f.Spans.Count, "%.40q", line)
		require.Equal(t, "before", nameIn(t, f, 0x10f))
		require.Equal(t, "after", nameIn(t, f, 0x200))
	}
	f, g := follow(NewPerfMap, "1000 0 a label\n")
	require.Empty(t, readAll(t, f, g, 64<<10), "a label is no lie")
	require.Zero(t, f.Spans.Count)
}

// TestPerfMapGrows writes a map byte by byte.
func TestPerfMapGrows(t *testing.T) {
	f, g := follow(NewPerfMap, "")
	for _, b := range []byte("1000 100 first\n1100 100 second\n1080 100 third\n") {
		g.data = append(g.data, b)
		require.Empty(t, readAll(t, f, g, 64<<10))
		if strings.HasSuffix(string(g.data), "second\n") {
			require.Equal(t, "first", nameIn(t, f, 0x10ff))
			require.Equal(t, "second", nameIn(t, f, 0x1100))
		}
	}
	require.Equal(t, "third", nameIn(t, f, 0x1080))
	require.Equal(t, 1, f.Spans.Count, "the later one counts, and what it overlaps is removed")
	require.Equal(t, uint64(len(g.data)), f.Read)
	reads := g.reads
	require.Empty(t, readAll(t, f, g, 64<<10))
	require.LessOrEqual(t, g.reads, reads+1, "what is known is not read again")
}

func TestPerfMapWrittenAnew(t *testing.T) {
	f, g := follow(NewPerfMap, "1000 100 first\n2000 100 second\n")
	require.Empty(t, readAll(t, f, g, 64<<10))
	for name, next := range map[string]string{
		"shorter": "3000 100 third\n",
		"equal":   "3000 100 third\n4000 100 fourth\n",
		"longer":  "3000 100 third\n4000 100 fourth\n5000 10 fifth\n6000 10 sixth\n",
	} {
		g.data = []byte(next)
		_, again, err := f.Grow(uint64(len(g.data)), 1<<20, make([]byte, 64<<10), directly)
		require.NoError(t, err)
		require.True(t, again, name)
		require.Equal(t, "third", nameIn(t, f, 0x3000), name)
		require.Nil(t, f.Spans.Find(0x1000), name)
		require.Equal(t, strings.Count(next, "\n"), f.Spans.Count)
		g.data = []byte("1000 100 first\n2000 100 second\n")
		_, again, err = f.Grow(uint64(len(g.data)), 1<<20, make([]byte, 64<<10), directly)
		require.NoError(t, err)
		require.True(t, again)
	}
}

// TestPerfMapPieces reads with a buffer that ends anywhere in a line, and keeps to a budget.
func TestPerfMapPieces(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "%x 40 function number %d\n", 0x10000+64*i, i)
	}
	f, g := follow(NewPerfMap, text.String())
	looks := 0
	for f.Behind(uint64(len(g.data))) {
		read, _, err := f.Grow(uint64(len(g.data)), 20<<10, make([]byte, maxMapLine+1), directly)
		require.NoError(t, err)
		require.LessOrEqual(t, read, int64(20<<10+maxMapLine+1), "a look reads about its budget")
		looks++
	}
	require.Greater(t, looks, 4)
	require.Equal(t, 5000, f.Spans.Count)
	for i := range 5000 {
		require.Equal(t, fmt.Sprintf("function number %d", i), nameIn(t, f, uint64(0x10000+64*i+63)))
	}
	require.ErrorIs(t, func() error { _, err := f.Format.Name(&growing{}, f.Spans.Find(0x10000)); return err }(), io.ErrUnexpectedEOF)
}

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("7f049c005900 2b0 JS:*foo [eval]:2:13\n0x1000 0x10 long Hot.hot(long)\n"), 20)
	f.Add([]byte("1000 0 label\n1000 20 a\n1010 ffffffffffffffff b\n\n\x00\x00\n"), 9)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		whole, g := follow(NewPerfMap, string(data))
		readAll(t, whole, g, 64<<10)
		checkSpans(t, whole)
		// The same data in two parts.
		parts, g := follow(NewPerfMap, string(data[:min(max(cut, 0), len(data))]))
		readAll(t, parts, g, 64<<10)
		g.data = data
		readAll(t, parts, g, 64<<10)
		require.Equal(t, all(&whole.Spans), all(&parts.Spans))
		require.Equal(t, whole.Read, parts.Read)
	})
}

// checkSpans checks the invariants of any file.
func checkSpans(t *testing.T, f *File) {
	t.Helper()
	end := uint64(0)
	for _, s := range all(&f.Spans) {
		require.GreaterOrEqual(t, s.Start, end)
		require.Positive(t, s.size)
		require.Less(t, s.Start, s.end())
		end = s.end()
		name, err := f.Format.Name(f.Src, &s)
		if err == nil {
			require.LessOrEqual(t, len(name), elfsym.MaxName)
		}
		_, _, _ = f.Format.Line(f.Src, &s, s.Start+1, false) // must end
	}
}
