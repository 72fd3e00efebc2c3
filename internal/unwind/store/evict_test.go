// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

// small is a store in ordinary memory, of a few chunks.
type small struct {
	*Store
	rules   []byte
	settled int
	err     error // the error of waiting for the programs
}

func newSmall(chunks int) *small {
	s := &small{rules: make([]byte, maxRules*ruleBytes)}
	s.Store = newStore(memory{
		grow:   func(uint16) ([]byte, error) { return make([]byte, chunkBytes), nil },
		rules:  s.rules,
		settle: func() error { s.settled++; return s.err },
	}, chunks)
	return s
}

// synthetic makes a table of pages of text; each page has rows at every 16 bytes, whose rules are the table's own.
func synthetic(salt int32, pages int) *unwind.Table {
	t := &unwind.Table{Start: 0x1000, End: 0x1000 + uint64(pages)*unwind.PageBytes}
	t.Rules = []unwind.Rule{{}, {CFA: unwind.CFAStackPointer, CFAOffset: salt}, {CFA: unwind.CFAStackPointer, CFAOffset: salt + 8}}
	for range pages {
		t.Pages = append(t.Pages, unwind.Page{First: uint32(len(t.Rows)), Count: unwind.PageBytes / 16})
		for at := uint32(0); at < unwind.PageBytes; at += 16 {
			t.Rows = append(t.Rows, at<<16|(1+at/16%2))
		}
	}
	return t
}

// offset returns a rule's CFAOffset for an address, by the bytes that BPF programs read.
func (s *small) offset(t *testing.T, p *Space, pc uint64) int32 {
	t.Helper()
	list := s.heap.at(p.extent)
	for i := range int(native.Uint32(list)) {
		m := list[spaceHeadBytes+i*mappingBytes:]
		start, base := native.Uint64(m), native.Uint64(m[8:])
		if pc < start || pc-start >= uint64(native.Uint32(m[16:])) {
			continue
		}
		page := s.heap.chunks[native.Uint16(m[20:])].memory[(uint64(native.Uint16(m[22:]))+(pc-base)/pageSize)*pageBytes:]
		rows := s.heap.chunks[native.Uint16(page)].memory[int(native.Uint16(page[2:]))*rowBytes:]
		rule := uint32(0)
		for j := range int(native.Uint16(page[4:])) {
			if row := native.Uint32(rows[j*rowBytes:]); row>>16 <= uint32(pc-base)%pageSize {
				rule = row & 0xffff
			}
		}
		return int32(native.Uint32(s.rules[rule*ruleBytes:]))
	}
	return -1
}

func (s *small) acquire(t *testing.T, name string, salt int32, pages int) *Binary {
	t.Helper()
	b, err := s.Acquire(name, func() (*unwind.Table, error) { return synthetic(salt, pages), nil })
	require.NoError(t, err)
	return b
}

func (s *small) spaceOf(t *testing.T, bias uint64, binaries ...*Binary) *Space {
	t.Helper()
	var list []Mapping
	for i, b := range binaries {
		at := bias + uint64(i)<<24
		list = append(list, Mapping{Start: at + 0x1000, End: at + 0x1000 + 1<<20, Bias: at, Binary: b})
	}
	p, err := s.NewSpace(list)
	require.NoError(t, err)
	return p
}

// TestEviction checks that tables of exited processes are evicted, the longest idle first, that those in use do not change, and that the
// counters are right.
func TestEviction(t *testing.T) {
	s := newSmall(8)
	const pages = 100 // some 26 KiB of rows and a directory
	used := s.spaceOf(t, 1<<32, s.acquire(t, "used", 1000, pages), s.acquire(t, "shared", 2000, pages))
	check := func() {
		for at := uint64(0); at < pages*unwind.PageBytes; at += 400 {
			want := int32(at/16%2) * 8
			require.Equal(t, 1000+want, s.offset(t, used, 1<<32+0x1000+at))
			require.Equal(t, 2000+want, s.offset(t, used, 1<<32+1<<24+0x1000+at))
		}
	}
	check()
	const others = 60
	for i := range int32(others) {
		p := s.spaceOf(t, 1<<40, s.acquire(t, fmt.Sprint("other ", i), 10_000+100*i, pages), s.acquire(t, "shared", 0, pages))
		require.Equal(t, 10_000+100*i, s.offset(t, p, 1<<40+0x1000))
		require.Equal(t, int32(2000), s.offset(t, p, 1<<40+1<<24+0x1000), "shared with the first")
		s.Free(p)
		check()
		require.LessOrEqual(t, s.Stats().Bytes-uint64(len(s.rules)), uint64(8*chunkBytes))
	}
	stats := s.Stats()
	require.Equal(t, uint64(others+2), stats.Built)
	require.Greater(t, stats.Evicted, uint64(others/2))
	require.Equal(t, int(stats.Built-stats.Evicted), stats.Binaries)
	require.Zero(t, stats.Full)
	require.Positive(t, s.settled, "what may be read still is not used again before all programs have ended")
	require.Nil(t, s.Known("other 0"), "the longest idle went")
	last := s.Known(fmt.Sprint("other ", others-1))
	require.NotNil(t, last, "the last one stays")
	s.Release(last)
}

// TestFull checks that a table that does not fit is refused and counted, and takes no memory.
func TestFull(t *testing.T) {
	s := newSmall(2)
	used := s.spaceOf(t, 0, s.acquire(t, "used", 1000, 100))
	before := s.Stats().TableBytes
	for range 3 {
		_, err := s.Acquire("large", func() (*unwind.Table, error) { return synthetic(5, 1000), nil })
		require.ErrorIs(t, err, ErrFull)
	}
	require.NoError(t, s.reclaim())
	stats := s.Stats()
	require.Equal(t, uint64(3), stats.Full)
	require.Equal(t, uint64(1), stats.Built)
	require.Equal(t, 1, stats.Binaries)
	require.Equal(t, before, stats.TableBytes)
	require.Equal(t, int32(1000), s.offset(t, used, 0x1000))
	s.Free(used)
	large := s.acquire(t, "fits now", 7, 420)
	require.Equal(t, int32(7), s.offset(t, s.spaceOf(t, 0, large), 0x1000))
	require.Equal(t, uint64(1), s.Stats().Evicted)
}

// TestEvictionThatCannotWait checks that memory is not reused while it is unknown whether it is still read.
func TestEvictionThatCannotWait(t *testing.T) {
	s := newSmall(2)
	s.Free(s.spaceOf(t, 0, s.acquire(t, "gone", 1000, 300)))
	s.err = errors.New("no such system call")
	_, err := s.Acquire("next", func() (*unwind.Table, error) { return synthetic(5, 300), nil })
	require.ErrorIs(t, err, s.err)
	s.err = nil
	require.Equal(t, int32(5), s.offset(t, s.spaceOf(t, 0, s.acquire(t, "next", 5, 300)), 0x1000))
}

// TestBuildThatFails checks that its error is returned, and that the next caller that needs the table tries again.
func TestBuildThatFails(t *testing.T) {
	s := newSmall(2)
	broken := errors.New("the file is gone")
	_, err := s.Acquire("b", func() (*unwind.Table, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	require.Nil(t, s.Known("b"))
	b, err := s.Acquire("b", func() (*unwind.Table, error) { return nil, nil })
	require.NoError(t, err, "one without a table is one")
	require.Equal(t, int32(-1), s.offset(t, s.spaceOf(t, 0, b), 0x1000))
	again, err := s.Acquire("b", func() (*unwind.Table, error) { return nil, broken })
	require.NoError(t, err)
	require.Same(t, b, again, "nothing again for the second process")
	require.Equal(t, uint64(1), s.Stats().Found)
	require.Equal(t, uint64(1), s.Stats().Built)
}
