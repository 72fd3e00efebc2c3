// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage/imagetest"
)

// TestReplacedWhileRead reads debug information of binaries that are replaced by others, or truncated, after each of the reads that it takes:
// the result is an error, or less than there was.
func TestReplacedWhileRead(t *testing.T) {
	for i, name := range committed {
		before, err := os.ReadFile("testdata/bin/" + name)
		require.NoError(t, err)
		another, err := os.ReadFile("testdata/bin/" + committed[(i+1)%len(committed)])
		require.NoError(t, err)
		text := codeOf(t, before)
		for what, after := range map[string][]byte{
			"shorter": before[:len(before)/2], "empty": nil, "of ones": bytes.Repeat([]byte{0xff}, len(before)), "another": another,
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				failed := 0
				for reads := 0; ; reads++ {
					src := &imagetest.Replaced{Before: before, After: after, Left: reads}
					d, err := Open(elfimage.Image{Src: src, Size: uint64(len(before))}, Options{Open: fromTestdata, Path: "/build/" + name})
					found := 0
					if err == nil {
						for at := text.Start; at < text.End && err == nil; at += 16 {
							var lines []Line
							lines, err = d.Lookup(at, nil)
							found += len(lines)
						}
						require.NoError(t, d.Close())
					}
					if err != nil {
						failed++
					}
					if src.Left >= 0 { // it was read to the end before
						require.NoError(t, err)
						require.Positive(t, found)
						require.Greater(t, reads, 3)
						break
					}
				}
				require.Positive(t, failed)
			})
		}
	}
}

// codeOf is the range of a binary's code.
func codeOf(t *testing.T, file []byte) elfimage.Span {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(file))
	require.NoError(t, err)
	text := f.Section(".text")
	require.NotNil(t, text)
	return elfimage.Span{Start: text.Addr, End: text.Addr + text.Size}
}
