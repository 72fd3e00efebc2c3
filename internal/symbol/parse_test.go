// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestParseMapLine(t *testing.T) {
	for line, want := range map[string]mapEntry{
		"55c694b83000-55c694b88000 r-xp 00002000 fe:00 247026                     /usr/bin/cat": {
			0x55c694b83000, 0x55c694b88000, 0x2000, 0xfe00, 247026, true, "/usr/bin/cat", false},
		"7fe9963df000-7fe9963e1000 r-xp 00000000 00:00 0                          [vdso]": {
			0x7fe9963df000, 0x7fe9963e1000, 0, 0, 0, true, "[vdso]", false},
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]": {
			0xffffffffff600000, 0xffffffffff601000, 0, 0, 0, true, "[vsyscall]", false},
		"1000-2000 rwxp 00000000 00:00 0 ":                                      {0x1000, 0x2000, 0, 0, 0, true, "", false},
		"1000-2000 rwxp 00000000 00:00 0":                                       {0x1000, 0x2000, 0, 0, 0, true, "", false},
		"1000-2000 r--p 00000000 fe:00 7 /not/executable":                       {0x1000, 0x2000, 0, 0xfe00, 7, false, "", false},
		`1000-2000 r-xs 3000 103:12345 9 /a b\012c (deleted)`:                   {0x1000, 0x2000, 0x3000, 0x12310345, 9, true, "/a b\nc (deleted)", false},
		"1000-2000 r-xp 00000000 00:01 18446744073709551615 /memfd:x (deleted)": {0x1000, 0x2000, 0, 1, 1<<64 - 1, true, "/memfd:x (deleted)", false},
	} {
		got, err := parseMapLine([]byte(line))
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{"", "x", "2000-1000 r-xp 0 0:0 0", "1000-2000 r-x 0 0:0 0", "1000-2000 r-xp 0 0:0 x", "1000-2000 r-xp 0 00 0"} {
		_, err := parseMapLine([]byte(line))
		require.ErrorContains(t, err, "parsing maps line", line)
	}
	require.Equal(t, "/x", (&mapEntry{path: "/x (deleted)"}).name())
	require.Equal(t, "/x (deleted)", (&mapEntry{path: "/x (deleted)", whole: true}).name())
}

func TestPlace(t *testing.T) {
	b := &binary{path: "/b", segments: []segment{
		{elfimage.Prog{Off: 0x1123, Vaddr: 0x402123, Filesz: 0xf00, Memsz: 0xf00}, &model.Mapping{Start: 0x402123}},
		{elfimage.Prog{Off: 0x2023, Vaddr: 0x404023, Filesz: 0x3000, Memsz: 0x3000}, &model.Mapping{Start: 0x404023}},
	}}
	for _, c := range []struct {
		start, offset, pc uint64
		want              uint64
		segment           int
	}{
		{0x7f0000001000, 0x1000, 0x7f0000001200, 0x402200, 0},
		{0x7f0000003000, 0x2000, 0x7f0000003100, 0x404100, 1}, // shares the first's last page
		{0x7f0000004000, 0x3000, 0x7f0000004010, 0x405010, 1}, // the latter part of a split mapping
	} {
		r := place(mapEntry{start: c.start, end: c.start + 0x4000, offset: c.offset}, b, 4096)
		require.Equal(t, c.want, c.pc+r.delta)
		require.Same(t, b.segments[c.segment].mapping, r.mapping)
	}
	r := place(mapEntry{start: 0x1000, end: 0x2000, offset: 0x9000}, b, 4096)
	require.EqualValues(t, 0x9010, 0x1010+r.delta, "no segment: an offset in the file")
	require.Equal(t, &model.Mapping{Start: 0x9000, Limit: 0xa000, FileOffset: 0x9000, Path: "/b"}, r.mapping)
}
