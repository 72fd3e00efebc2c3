// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	enc "encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostileAbbrevs are a unit with entries (1), one with a line table, too (2), a block with entries (3), a function that is an instance of
// another entry (4), and one with a name (5).
var hostileAbbrevs = []byte{
	1, 0x11, 1, atLowPC, formAddr, atHighPC, formData8, 0, 0,
	2, 0x11, 1, atLowPC, formAddr, atHighPC, formData8, atStmtList, formSecOffset, 0, 0,
	3, 0x0b, 1, 0, 0,
	4, tagSubprogram, 0, atLowPC, formAddr, atHighPC, formData8, atAbstractOrigin, formRef4, 0, 0,
	5, tagSubprogram, 0, atLowPC, formAddr, atHighPC, formData8, atName, formString, 0, 0,
	0,
}

// unitHead is the length of the head of unitBytes.
const unitHead = 11

// unitBytes is a unit of DWARF 4 of the given entries.
func unitBytes(entries ...[]byte) []byte {
	all := bytes.Join(entries, nil)
	b := enc.LittleEndian.AppendUint32(nil, uint32(unitHead-4+len(all)))
	b = append(b, 4, 0, 0, 0, 0, 0, 8)
	return append(b, all...)
}

// coded is an entry that begins with the addresses of its code.
func coded(abbrev byte, low, size uint64, more ...byte) []byte {
	b := enc.LittleEndian.AppendUint64([]byte{abbrev}, low)
	return append(enc.LittleEndian.AppendUint64(b, size), more...)
}

// TestHostile checks that contradictory debug information ends in an error that names the place, or in what can be read nevertheless.
func TestHostile(t *testing.T) {
	unit := coded(1, 0x1000, 0x1000)
	first := uint32(unitHead + len(unit))
	origin := func(off uint32) []byte { return enc.LittleEndian.AppendUint32(nil, off) }
	huge := append(bytes.Repeat([]byte{0xff}, 4), 0, 0, 0, 0, 0, 0, 0, 0x80, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8) // 2^63 bytes
	size := uint32(len(coded(4, 0, 0, 0, 0, 0, 0)))
	for name, c := range map[string]struct {
		info, line []byte
		cause      error // nil: none
		says       string
		want       string // name of the function at 0x1010
	}{
		"a unit of 2^63 bytes":        {huge, nil, errShort, ".debug_info+0x", ""},
		"a unit longer than all":      {append([]byte{0xff, 0xff}, unitBytes(unit)[2:]...), nil, errShort, ".debug_info+0x", ""},
		"no abbreviation of an entry": {unitBytes(unit, []byte{99}), nil, errNoAbbrev, ".debug_info+0x1c: 99: ", ""},
		"nested without end":          {unitBytes(unit, bytes.Repeat([]byte{3}, 2*maxDepth)), nil, ErrTooLarge, ".debug_info+0x101b: entries nested deeper than 4096", ""},
		"two that are instances of each other": {unitBytes(unit, coded(4, 0x1000, 0x20, origin(first+size)...), coded(4, 0x1020, 0x20, origin(first)...)),
			nil, errReference, "more than 16 references", ""},
		"an instance of itself":       {unitBytes(unit, coded(4, 0x1000, 0x20, origin(first)...)), nil, nil, "", ""},
		"an instance of nothing":      {unitBytes(unit, coded(4, 0x1000, 0x20, origin(1<<31)...)), nil, nil, "", ""},
		"an instance of the unit":     {unitBytes(unit, coded(4, 0x1000, 0x20, origin(3)...)), nil, errReference, ".debug_info+0x3: ", ""},
		"functions that overlap":      {unitBytes(unit, coded(5, 0x1000, 0x20, 'a', 0), coded(5, 0x1008, 0x30, 'b', 0)), nil, nil, "", "a"},
		"a function of 2^63 bytes":    {unitBytes(unit, coded(5, 0x1000, 1<<63, 'a', 0)), nil, nil, "", ""},
		"a name without an end":       {unitBytes(unit, coded(5, 0x1000, 0x20, 'a')), nil, errShort, ".debug_info+0x", ""},
		"lines of 2^63 bytes":         {unitBytes(coded(2, 0x1000, 0x1000, 0, 0, 0, 0)), huge, errShort, ".debug_line+0x", ""},
		"lines that are not there":    {unitBytes(coded(2, 0x1000, 0x1000, 0xff, 0xff, 0xff, 0x7f)), nil, errShort, ".debug_line+0x", ""},
		"lines without a header":      {unitBytes(coded(2, 0x1000, 0x1000, 0, 0, 0, 0)), []byte{7, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0}, errShort, ".debug_line+0x", ""},
		"a unit that is not the last": {append(unitBytes(unit, coded(5, 0x1000, 0x20, 'a', 0)), huge...), nil, errShort, ".debug_info+0x", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			o := objectOf(map[string][]byte{".debug_info": c.info, ".debug_abbrev": hostileAbbrevs, ".debug_line": c.line})
			d, err := newData(o, fuzzMemory, new(Workspace))
			var lines []Line
			if d != nil {
				var errLookup error
				lines, errLookup = d.Lookup(0x1010, nil)
				err = errors.Join(err, errLookup)
				require.LessOrEqual(t, d.held, int64(fuzzMemory))
				require.NoError(t, d.Close())
			}
			if c.cause == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.cause)
				require.ErrorContains(t, err, c.says)
			}
			got := ""
			if len(lines) > 0 && lines[0].Function != nil {
				got = lines[0].Function.Name
			}
			require.Equal(t, c.want, got)
		})
	}
}
