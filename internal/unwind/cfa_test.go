// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// interpreted runs instructions from address 0 on, after those of a CIE that define sp + 8 with the return address at CFA - 8, and returns
// the table.
func interpreted(t *testing.T, a *arch, code ...byte) (*Table, error) {
	t.Helper()
	table := &Table{End: 64 << 10, Pages: make([]Page, 64<<10/PageBytes)}
	p := newPacker(table, 1<<20)
	p.to = table.End
	m := machine{arch: a, cie: &cie{codeAlign: 2, dataAlign: -8, encoding: peAbsolute}, end: 0x1000}
	require.NoError(t, m.run([]byte{cfaDefCFA, byte(a.sp), 8, cfaOffset | byte(a.ra), 1}))
	m.initial, m.out = m.state, p
	err := m.run(code)
	if err == nil {
		m.goTo(max(m.loc, m.end))
	}
	p.finish()
	sound(t, table)
	return table, err
}

// TestInstructions runs each instruction; the first row is at 0, the second
// at 2, where the instruction was run.
func TestInstructions(t *testing.T) {
	base := Rule{CFA: CFAStackPointer, CFAOffset: 8, RA: Saved, RAOffset: -8}
	with := func(change func(r *Rule)) Rule {
		r := base
		change(&r)
		return r
	}
	fpAt := func(off int16) Rule { return with(func(r *Rule) { r.FP, r.FPOffset = Saved, off }) }
	lost := with(func(r *Rule) { r.FP = Undefined })
	for name, c := range map[string]struct {
		code []byte
		want Rule
	}{
		"nop":                     {[]byte{cfaNop}, base},
		"negate_ra_state":         {[]byte{cfaNegateRA, cfaNegateRAPC}, base},
		"GNU_args_size":           {[]byte{cfaArgsSize, 0x80, 1}, base},
		"def_cfa":                 {[]byte{cfaDefCFA, 6, 16}, with(func(r *Rule) { r.CFA, r.CFAOffset = CFAFramePointer, 16 })},
		"def_cfa other":           {[]byte{cfaDefCFA, 10, 0}, with(func(r *Rule) { r.CFA, r.CFAOffset = CFARegister+10, 0 })},
		"def_cfa beyond":          {[]byte{cfaDefCFA, 32, 0}, Rule{}},
		"def_cfa_sf":              {[]byte{cfaDefCFASF, 6, 0x7e}, with(func(r *Rule) { r.CFA, r.CFAOffset = CFAFramePointer, 16 })},
		"def_cfa_register":        {[]byte{cfaDefCFARegister, 6}, with(func(r *Rule) { r.CFA = CFAFramePointer })},
		"def_cfa_offset":          {[]byte{cfaDefCFAOffset, 0x90, 1}, with(func(r *Rule) { r.CFAOffset = 144 })},
		"def_cfa_offset_sf":       {[]byte{cfaDefCFAOffsetSF, 1}, with(func(r *Rule) { r.CFAOffset = -8 })},
		"def_cfa_offset huge":     {[]byte{cfaDefCFAOffset, 0x80, 0x80, 0x80, 0x80, 0x10}, Rule{}},
		"offset":                  {[]byte{cfaOffset | 6, 2}, fpAt(-16)},
		"offset of others":        {[]byte{cfaOffset | 12, 2, cfaOffsetExtended, 12, 3}, base},
		"offset_extended":         {[]byte{cfaOffsetExtended, 6, 3}, fpAt(-24)},
		"offset_extended_sf":      {[]byte{cfaOffsetSF, 6, 0x7f}, fpAt(8)},
		"negative_offset":         {[]byte{cfaNegativeOffset, 6, 2}, fpAt(16)},
		"offset huge":             {[]byte{cfaOffset | 6, 0x80, 0x80, 1}, lost},
		"offset of ra huge":       {[]byte{cfaOffset | 16, 0x80, 0x80, 1}, Rule{}},
		"restore":                 {[]byte{cfaOffset | 6, 2, cfaRestore | 6}, base},
		"restore_extended":        {[]byte{cfaOffset | 6, 2, cfaRestoreExtended, 6}, base},
		"restore of ra":           {[]byte{cfaUndefined, 16, cfaRestore | 16}, base},
		"undefined":               {[]byte{cfaUndefined, 6}, lost},
		"undefined ra":            {[]byte{cfaUndefined, 16}, Rule{CFA: CFAEnd}},
		"same_value":              {[]byte{cfaOffset | 6, 2, cfaSameValue, 6}, base},
		"same_value of ra":        {[]byte{cfaSameValue, 16}, Rule{}},
		"register":                {[]byte{cfaRegister, 6, 9}, lost},
		"register itself":         {[]byte{cfaRegister, 6, 6}, base},
		"register of ra":          {[]byte{cfaRegister, 16, 1}, Rule{}},
		"val_offset":              {[]byte{cfaValOffset, 6, 2}, lost},
		"val_offset of sp":        {[]byte{cfaValOffset, 7, 0, cfaValOffsetSF, 7, 0}, base},
		"val_offset_sf":           {[]byte{cfaValOffsetSF, 6, 2}, lost},
		"val_expression":          {[]byte{cfaValExpression, 6, 2, 0x76, 0}, lost},
		"val_expression of ra":    {[]byte{cfaValExpression, 16, 2, 0x76, 0}, Rule{}},
		"expression":              {[]byte{cfaExpression, 6, 2, 0x76, 0x78}, with(func(r *Rule) { r.FP, r.FPOffset = SavedAtFP, -8 })},
		"expression of sp":        {[]byte{cfaExpression, 6, 2, 0x77, 8}, lost},
		"expression of ra":        {[]byte{cfaExpression, 16, 2, 0x76, 8}, Rule{}},
		"expression of others":    {[]byte{cfaExpression, 12, 2, 0x76, 0x78}, base},
		"expression of bx":        {[]byte{cfaExpression, 3, 2, 0x76, 0x78}, with(func(r *Rule) { r.BX = Undefined })},
		"offset of bx":            {[]byte{cfaOffset | 3, 2}, with(func(r *Rule) { r.BX, r.BXOffset = Saved, -16 })},
		"offset of bx huge":       {[]byte{cfaOffset | 3, 0x80, 0x80, 1}, with(func(r *Rule) { r.BX = Undefined })},
		"restore of bx":           {[]byte{cfaOffset | 3, 2, cfaRestore | 3}, base},
		"remember":                {[]byte{cfaRememberState, cfaDefCFA, 6, 16, cfaOffset | 6, 2, cfaRestoreState}, base},
		"cfa: realigned":          {[]byte{cfaDefCFAExpr, 3, 0x76, 0x78, 6}, with(func(r *Rule) { r.CFA, r.CFAOffset = CFAFramePointerDeref, -8 })},
		"cfa: saved sp":           {[]byte{cfaDefCFAExpr, 6, 0x77, 0x98, 1, 6, 0x23, 8}, with(func(r *Rule) { r.CFA, r.CFAOffset, r.Addend = CFAStackPointerDeref, 152, 8 })},
		"cfa: saved sp, too much": {[]byte{cfaDefCFAExpr, 7, 0x77, 0x98, 1, 6, 0x23, 0x80, 2}, Rule{}},
		"cfa: breg":               {[]byte{cfaDefCFAExpr, 2, 0x77, 16}, with(func(r *Rule) { r.CFAOffset = 16 })},
		"cfa: other":              {[]byte{cfaDefCFAExpr, 3, 0x77, 16, 0x22}, Rule{}},
		"cfa: deref of another":   {[]byte{cfaDefCFAExpr, 3, 0x73, 16, 6}, Rule{}},
		"cfa: empty":              {[]byte{cfaDefCFAExpr, 0}, Rule{}},
		"cfa: then a register":    {[]byte{cfaDefCFAExpr, 0, cfaDefCFA, 7, 8}, base},
		"cfa: plt":                {append([]byte{cfaDefCFAExpr, 11}, pltExpression...), with(func(r *Rule) { r.CFA, r.CFAOffset = CFAPLT, 11 })},
		"set_loc":                 {[]byte{cfaSetLoc, 4, 0, 0, 0, 0, 0, 0, 0}, base},
	} {
		table, err := interpreted(t, &x86, append([]byte{cfaAdvance | 1}, c.code...)...)
		require.NoError(t, err, name)
		require.Equal(t, base, table.Lookup(0), name)
		require.Equal(t, base, table.Lookup(1), name)
		require.Equal(t, c.want.String(), table.Lookup(0xfff).String(), name)
		require.Equal(t, c.want, table.Lookup(0xfff), name)
		require.Equal(t, Rule{}, table.Lookup(0x1000), name)
	}
}

// TestAdvance covers the instructions that advance the location; code is counted in twos.
func TestAdvance(t *testing.T) {
	table, err := interpreted(t, &x86, cfaAdvance|3, cfaDefCFAOffset, 16, cfaAdvance1, 5, cfaDefCFAOffset, 24,
		cfaAdvance2, 1, 1, cfaDefCFAOffset, 32, cfaAdvance4, 2, 0, 0, 0, cfaDefCFAOffset, 40, cfaAdvance8, 1, 0, 0, 0, 0, 0, 0, 0, cfaDefCFAOffset, 48)
	require.NoError(t, err)
	var got []uint64
	table.Each(func(pc uint64, r Rule) bool {
		if len(got) == 0 || got[len(got)-1] != uint64(r.CFAOffset) { // pages repeat the rule that holds where they begin
			got = append(got, pc, uint64(r.CFAOffset))
		}
		return true
	})
	require.Equal(t, []uint64{0, 8, 6, 16, 16, 24, 16 + 2*0x101, 32, 20 + 2*0x101, 40, 22 + 2*0x101, 48, 0x1000, 0}, got)
}

// TestArm64 covers what differs: the return address may be in its register.
func TestArm64(t *testing.T) {
	table, err := interpreted(t, &arm64, cfaSameValue, 30, cfaDefCFA, 31, 0, cfaAdvance|2, cfaDefCFAOffset, 0x20, cfaOffset|29, 4, cfaOffset|30, 3,
		cfaNegateRA, cfaAdvance|2, cfaDefCFARegister, 29)
	require.NoError(t, err)
	require.Equal(t, Rule{CFA: CFAStackPointer}, table.Lookup(0))
	frame := Rule{CFA: CFAStackPointer, CFAOffset: 32, FP: Saved, FPOffset: -32, RA: Saved, RAOffset: -24}
	require.Equal(t, frame, table.Lookup(4))
	frame.CFA = CFAFramePointer
	require.Equal(t, frame, table.Lookup(8))
}

func TestBadInstructions(t *testing.T) {
	deep := make([]byte, maxRemembered+1)
	for i := range deep {
		deep[i] = cfaRememberState
	}
	for name, c := range map[string]struct {
		code  []byte
		cause error
	}{
		"unknown":             {[]byte{0x3f, 0}, errOpcode},
		"restored too often":  {[]byte{cfaRememberState, cfaRestoreState, cfaRestoreState}, errNested},
		"remembered too deep": {deep, errNested},
		"short":               {[]byte{cfaDefCFA, 7}, errShort},
		"short advance":       {[]byte{cfaAdvance4, 1, 2}, errShort},
		"expression too long": {[]byte{cfaDefCFAExpr, 9, 0x76}, errShort},
		"uleb overflows":      {[]byte{cfaDefCFAOffset, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, errShort},
		"sleb overflows":      {[]byte{cfaDefCFAOffsetSF, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, errShort},
		"back":                {[]byte{cfaAdvance | 9, cfaSetLoc, 4, 0, 0, 0, 0, 0, 0, 0}, errBack},
		"around":              {[]byte{cfaAdvance | 9, cfaAdvance8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, errBack},
	} {
		_, err := interpreted(t, &x86, c.code...)
		require.ErrorIs(t, err, c.cause, name)
		require.ErrorContains(t, err, "instruction 0x", name)
	}
}

func TestLEB(t *testing.T) {
	for _, c := range []struct {
		b []byte
		u uint64
		s int64
	}{
		{[]byte{0}, 0, 0}, {[]byte{0x3f}, 63, 63}, {[]byte{0x40}, 64, -64}, {[]byte{0x7f}, 127, -1}, {[]byte{0x80, 1}, 128, 128},
		{[]byte{0x80, 0x7f}, 0x3f80, -128}, {[]byte{0x80, 0x80, 0}, 0, 0},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, math.MaxUint64, -1},
		{[]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, 1 << 63, math.MinInt64},
	} {
		u, s := cursor{b: c.b}, cursor{b: c.b}
		require.Equal(t, c.u, u.uleb())
		require.Equal(t, c.s, s.sleb())
		require.False(t, u.bad || s.bad)
		require.Empty(t, u.b)
		require.Empty(t, s.b)
	}
}

func TestPointer(t *testing.T) {
	b := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for encoding, want := range map[byte]uint64{
		peAbsolute: math.MaxUint64 - 1, peU16: 0xfffe, peU32: 0xfffffffe, peU64: math.MaxUint64 - 1,
		peS16: math.MaxUint64 - 1, peS32: math.MaxUint64 - 1, peS64: math.MaxUint64 - 1,
		pePCRel | peS32: 0x1000 - 2, peDataRel | peS32: 0x2000 - 2, pePCRel | peU16: 0x1000 + 0xfffe,
	} {
		c := cursor{b: b}
		got, err := c.pointer(encoding, 0x1000, 0x2000)
		require.NoError(t, err)
		require.Equal(t, want, got, "%#x", encoding)
	}
	for _, encoding := range []byte{0x80 | pePCRel, 0x20, 0x40, 0x50, peOmit, 0x05, peDataRel} {
		c := cursor{b: b}
		_, err := c.pointer(encoding, 0x1000, 0)
		require.ErrorIs(t, err, errEncoding, "%#x", encoding)
	}
	c := cursor{b: b[:3]}
	_, err := c.pointer(peU32, 0, 0)
	require.ErrorIs(t, err, errShort)
}
