// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// sectionsOf reads the debug sections of a program of testdata/bin.
func sectionsOf(t testing.TB, name, suffix string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/bin", name))
	require.NoError(t, err)
	f, sections, err := parse(imageOfBytes(b))
	require.NoError(t, err)
	o, err := readObject(f, sections, &inflater{space: new(Workspace), limit: maxInflated}, suffix)
	require.NoError(t, err)
	out := map[string][]byte{}
	for _, s := range []*section{&o.info, &o.abbrev, &o.line, &o.lineStr, &o.str, &o.strOffsets, &o.addr, &o.ranges, &o.rnglists, &o.aranges} {
		if s.Size > 0 {
			content := make([]byte, s.Size)
			require.NoError(t, s.Read(content, 0))
			out[s.name] = content
		}
	}
	return out
}

// objectOf makes an object of sections in memory.
func objectOf(sections map[string][]byte) *object {
	o := &object{text: elfimage.Span{Start: 0x1000, End: 1 << 33}}
	for name, content := range sections {
		if s := o.section(name); s != nil {
			s.Image = imageOfBytes(content)
		}
	}
	return o
}

const fuzzMemory = 1 << 20

// exercise looks up addresses in the whole range that an object claims to have, and checks the bounds.
func exercise(t *testing.T, o *object) {
	d, err := newData(o, fuzzMemory, new(Workspace))
	if d == nil {
		require.Error(t, err)
		return
	}
	var lines []Line
	for i, r := range d.index.ranges {
		if i == 64 {
			break
		}
		for _, addr := range []uint32{r.low, r.low + (r.high-r.low)/2, r.high - 1} {
			lines, err = d.Lookup(o.text.Start+uint64(addr), lines[:0])
			if err != nil {
				require.NotEmpty(t, err.Error())
			}
			require.LessOrEqual(t, len(lines), maxDepth+1)
		}
	}
	require.LessOrEqual(t, d.held, int64(3*fuzzMemory))
	require.NoError(t, d.Close())
}

// FuzzInfo changes .debug_info and .debug_abbrev.
func FuzzInfo(f *testing.F) {
	for i, name := range committed {
		s := sectionsOf(f, name, "")
		f.Add(i, s[".debug_info"], s[".debug_abbrev"])
	}
	all := make([]map[string][]byte, len(committed))
	for i, name := range committed {
		all[i] = sectionsOf(f, name, "")
	}
	f.Fuzz(func(t *testing.T, base int, info, abbrev []byte) {
		sections := map[string][]byte{}
		for k, v := range all[uint(base)%uint(len(all))] {
			sections[k] = v
		}
		sections[".debug_info"], sections[".debug_abbrev"] = info, abbrev
		exercise(t, objectOf(sections))
	})
}

// FuzzTables changes the tables that .debug_info refers to: lists of ranges, addresses, strings.
func FuzzTables(f *testing.F) {
	all := make([]map[string][]byte, len(committed))
	for i, name := range committed {
		s := sectionsOf(f, name, "")
		all[i] = s
		f.Add(i, s[".debug_ranges"], s[".debug_rnglists"], s[".debug_addr"], s[".debug_str_offsets"], s[".debug_str"], s[".debug_aranges"])
	}
	f.Fuzz(func(t *testing.T, base int, ranges, rnglists, addr, strOffsets, str, aranges []byte) {
		sections := map[string][]byte{}
		for k, v := range all[uint(base)%uint(len(all))] {
			sections[k] = v
		}
		for name, content := range map[string][]byte{
			".debug_ranges": ranges, ".debug_rnglists": rnglists, ".debug_addr": addr, ".debug_str_offsets": strOffsets, ".debug_str": str,
			".debug_aranges": aranges,
		} {
			sections[name] = content
		}
		exercise(t, objectOf(sections))
	})
}

// FuzzLine changes line tables.
func FuzzLine(f *testing.F) {
	for _, name := range committed {
		s := sectionsOf(f, name, "")
		f.Add(s[".debug_line"], s[".debug_line_str"])
	}
	f.Fuzz(func(t *testing.T, line, lineStr []byte) {
		o := objectOf(map[string][]byte{".debug_line": line, ".debug_line_str": lineStr, ".debug_str": []byte("text\x00")})
		u := &unit{obj: o, encoding: encoding{5, 8, 4}}
		u.root.stmtList = value{formSecOffset, 0}
		const limit = 1 << 12
		h, rows, err := readRows(u, o.text, nil, limit, make([]byte, 256))
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(rows), 2*limit+1)
		for i, r := range rows {
			require.True(t, i == 0 || rows[i-1].addr <= r.addr, "rows are sorted")
			if r.file != noFile && i < 64 {
				if p, err := h.path(r.file); err == nil {
					require.LessOrEqual(t, len(p), 4*maxText)
				}
			}
		}
	})
}

// FuzzSplit changes a package of split units.
func FuzzSplit(f *testing.F) {
	program, err := os.ReadFile("testdata/bin/clang-split5")
	require.NoError(f, err)
	pack, err := os.ReadFile("testdata/bin/clang-split5.dwp")
	require.NoError(f, err)
	f.Add(pack)
	f.Fuzz(func(t *testing.T, pack []byte) {
		open := func(p string) (File, error) {
			if filepath.Ext(p) != ".dwp" {
				return File{}, os.ErrNotExist
			}
			return File{imageOfBytes(pack), func() error { return nil }}, nil
		}
		d, err := Open(imageOfBytes(program), Options{Open: open, Path: "/p", Memory: fuzzMemory})
		require.NoError(t, err)
		for addr := d.index.text.Start; addr < d.index.text.End; addr += 16 {
			if _, err := d.Lookup(addr, nil); err != nil {
				require.NotEmpty(t, err.Error())
			}
		}
		require.NoError(t, d.Close())
	})
}

// FuzzOpen reads whole files: sections, compression, notes and links to other files.
func FuzzOpen(f *testing.F) {
	for _, name := range committed {
		b, err := os.ReadFile("testdata/bin/" + name)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := imageOfBytes(b)
		itself := func(string) (File, error) { return File{m, func() error { return nil }}, nil }
		d, _ := Open(m, Options{Memory: fuzzMemory, Open: itself, Path: "/p", TempDir: "/proc/none"})
		if d != nil {
			for i, r := range d.index.ranges {
				if i == 8 {
					break
				}
				if lines, err := d.Lookup(d.index.text.Start+uint64(r.low), nil); err == nil {
					require.LessOrEqual(t, len(lines), maxDepth+1)
				}
			}
			require.NoError(t, d.Close())
		}
		if file, _, err := Separate(m, "/p", 1<<30, nil, itself); err == nil {
			require.NoError(t, file.Close())
		}
		if img, err := MiniDebug(m); err == nil {
			require.LessOrEqual(t, img.Size, uint64(maxMini))
		}
	})
}

// FuzzXZ inflates hostile streams. Those that testdata/fuzz begins with were made by xz, each with another check.
func FuzzXZ(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		if out, err := unxz(bytes.NewReader(b), limit); err == nil {
			require.LessOrEqual(t, len(out), limit)
		}
	})
}

// TestXZ inflates what xz has made.
func TestXZ(t *testing.T) {
	want := bytes.Repeat([]byte("some content "), 50)
	for _, name := range []string{"crc32", "crc64", "blocks", "unchecked"} {
		text, err := os.ReadFile("testdata/fuzz/FuzzXZ/" + name)
		require.NoError(t, err)
		_, quoted, found := strings.Cut(strings.TrimSpace(string(text)), "[]byte(")
		require.True(t, found)
		stream, err := strconv.Unquote(strings.TrimSuffix(quoted, ")"))
		require.NoError(t, err)
		got, err := unxz(strings.NewReader(stream), 1<<16)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		_, err = unxz(strings.NewReader(stream), len(want)-1)
		require.ErrorIs(t, err, ErrTooLarge, name)
	}
}
