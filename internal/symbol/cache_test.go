// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// counted recounts the memory of the entries of a cache.
func (c *frameCache) counted() (bytes int64) {
	for _, g := range []*generation{&c.young, &c.old} {
		for _, e := range g.frames {
			bytes += e.bytes()
		}
		for _, f := range g.functions {
			bytes += costOf(f)
		}
		for file := range g.files {
			bytes += fileNameBytes + int64(len(file))
		}
	}
	return bytes
}

// TestOverwrittenFramesAreNotCounted checks the accounts when frames and functions replace others of the same address and key.
func TestOverwrittenFramesAreNotCounted(t *testing.T) {
	s := assemble(Config{})
	b := &binary{}
	s.all[b] = struct{}{}
	inlined := func(functions int) *entry {
		e := &entry{more: make([]uint64, functions)}
		e.frame.Lines = make([]model.Line, functions+1)
		e.frame.Address = 7
		return e
	}
	check := func() {
		t.Helper()
		require.Equal(t, b.frames.counted(), b.frames.bytes())
		require.Equal(t, b.frames.bytes(), s.frameBytes)
	}
	for i := range 4 {
		s.putFrame(b, 7, inlined(i))
		check()
		s.putFunction(b, 9, &model.Function{Name: "f", SystemName: "longer"[:i]})
		check()
	}
	old := b.frames.get(7)
	require.True(t, s.replaceFrame(b, old, inlined(9)))
	check()
	require.False(t, s.replaceFrame(b, old, inlined(2)))
	s.rotateFrames()
	s.frameBytes = b.frames.bytes()
	last := b.frames.get(7)
	require.True(t, s.replaceFrame(b, last, inlined(1)))
	check()
	s.removeFrame(b, b.frames.get(7))
	check()
	require.Empty(t, b.frames.young.frames)
}
