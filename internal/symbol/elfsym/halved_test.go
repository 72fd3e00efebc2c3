// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"debug/elf"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// denseFile has functions at each of the addresses and a third of the bound of labels behind them, and more labels than the bound behind
// those at the address dense. The functions bound the range of an address.
func denseFile(addrs []uint64, dense uint64) *symbolFile {
	f := &symbolFile{}
	fill := func(at uint64, labels int) {
		for i := range uint64(maxNesting) {
			f.add("function", elf.STB_GLOBAL, elf.STT_FUNC, at+0x10*i, 0x10)
		}
		for i := range uint64(labels) {
			f.add("label", elf.STB_LOCAL, elf.STT_NOTYPE, at+0x200+i, 0)
		}
	}
	for _, at := range addrs {
		fill(at, maxWindowSymbols/3)
	}
	fill(dense, maxWindowSymbols+1)
	return f
}

// TestBatchIsHalved checks that addresses whose symbols exceed the memory bound together are looked up separately, and that an address that
// exceeds it alone does not affect the others' names.
func TestBatchIsHalved(t *testing.T) {
	const apart = 0x100000
	var begins, wanted []uint64
	for i := range uint64(4) {
		begins = append(begins, apart*(i+1))
		wanted = append(wanted, apart*(i+1)+0x80000) // behind the labels
	}
	f := denseFile(begins, 16*apart)
	text := elfimage.Span{Start: apart, End: 32 * apart}
	passes := 0
	pass := func(addrs []uint64) (*Table, error) {
		passes++
		b, sources := f.builder(text)
		return b.Partial(sources, addrs)
	}
	_, err := pass(wanted)
	require.ErrorIs(t, err, reason.ErrTooLarge, "together they exceed the bound")
	passes = 0

	table, some, err := Halve(pass, append(wanted, 24*apart))
	require.NoError(t, err)
	require.ErrorIs(t, some, reason.ErrTooLarge)
	require.LessOrEqual(t, passes, 9)
	for _, addr := range wanted {
		_, known := table.LookupReturn(addr)
		require.True(t, known, "%#x", addr)
	}
	_, known := table.LookupReturn(24 * apart)
	require.False(t, known)

	_, some, err = Halve(pass, []uint64{24 * apart})
	require.NoError(t, some)
	require.ErrorIs(t, err, reason.ErrTooLarge)
}

// TestHalvingIsBounded checks the passes over a file in which each address exceeds the bound, and over one that cannot be read.
func TestHalvingIsBounded(t *testing.T) {
	for _, c := range []struct {
		cause error
		most  int
	}{{reason.ErrTooLarge, 2*maxHalvings + 1}, {errors.New("stopped"), 1}, {errors.New("unreadable"), 1}} {
		passes := 0
		_, _, err := Halve(func([]uint64) (*Table, error) { passes++; return nil, c.cause }, make([]uint64, 256))
		require.ErrorIs(t, err, c.cause)
		require.LessOrEqual(t, passes, c.most)
	}
}
