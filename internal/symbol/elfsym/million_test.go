// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// BenchmarkTableMillion builds a table of a million symbols.
func BenchmarkTableMillion(b *testing.B) {
	img, f := syntheticSymtab(1 << 20)
	for b.Loop() {
		builder := Builder{
			File: f, Text: []elfimage.Span{{Start: 0x1000, End: 0x1000 + 1<<30}}, Buf: make([]byte, ScratchBytes),
			Names: Reader{Cache: NewPages(64 << 20), Owner: 1, Image: f.Image}, Reserve: func(int, int64) error { return nil },
		}
		t, err := builder.Build([]Source{{size: uint64(len(img)) - 4096, entsize: 24, strings: elfimage.Span{Start: uint64(len(img)) - 4096, End: uint64(len(img))}}})
		require.NoError(b, err)
		require.Len(b, t.entries, 1<<20)
	}
}
