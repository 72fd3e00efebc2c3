// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage/imagetest"
)

// TestReplacedWhileRead builds tables of binaries that are replaced by others, or truncated, after each of the reads that it takes: the
// result is an error or a consistent table.
func TestReplacedWhileRead(t *testing.T) {
	debugFrame := bytes.Repeat([]byte{0xff}, len(ehFrameBytes()))
	for name, before := range map[string][]byte{
		".eh_frame": binaryWith(elf.EM_X86_64, ".eh_frame", ehFrameBytes()), ".gopclntab": binaryWith(elf.EM_X86_64, ".gopclntab", goImage()),
	} {
		for what, after := range map[string][]byte{
			"shorter": before[:len(before)/2], "empty": nil, "without its end": before[:len(before)-1],
			"of zeros": make([]byte, len(before)), "of ones": bytes.Repeat([]byte{0xff}, len(before)),
			"another": binaryWith(elf.EM_AARCH64, ".debug_frame", debugFrame), "moved": append(make([]byte, 24), before...),
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				failed, partial := 0, 0
				for reads := 0; ; reads++ {
					src := &imagetest.Replaced{Before: before, After: after, Left: reads}
					table, err := Build(elfimage.Image{Src: src, Size: uint64(len(before))}, Limits{})
					if err != nil {
						failed++
					} else {
						sound(t, table)
						if table.Err != nil || table.Functions == 0 {
							partial++
						}
					}
					if src.Left >= 0 { // it was read to the end before
						require.NoError(t, err)
						require.NoError(t, table.Err)
						require.Positive(t, table.Functions)
						require.Greater(t, reads, 3)
						break
					}
				}
				require.Positive(t, failed+partial)
			})
		}
	}
}
