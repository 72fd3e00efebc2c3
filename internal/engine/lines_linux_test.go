// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestLines has lines in the reports of a program that has ended, the last of them made as the engine stops. An emulated CPU is too slow
// for a program of less than a second.
func TestLines(t *testing.T) {
	needRoot(t)
	path := copyFile(t, testbin.C(t, "testdata/chain.c"), filepath.Join(t.TempDir(), "lined"))
	config := configuration(2*time.Millisecond, process.Selector{Exe: path})
	config.Symbols.DebugInfo = true
	o := begin(t, config)
	work := 1500 * time.Millisecond
	if testbin.UnderRace { // the C library's debug information comes first, and takes ten times as long
		work *= 4
	}
	launch(t, path, milliseconds(work), "-").end()
	o.end()
	samples := 0
	for _, p := range o.of(runs(path)) {
		for _, s := range p.Samples {
			for _, f := range s.Frames {
				if len(f.Lines) == 0 || f.Lines[0].Function.Name != "prologue" {
					continue
				}
				line := f.Settled().Lines[0]
				require.Equal(t, "prologue", line.Function.Name)
				require.Equal(t, "chain.c", filepath.Base(line.Function.Filename))
				require.InDelta(t, 13, line.Line, 3, "within the function")
				samples += int(s.Values[0])
			}
		}
	}
	require.Greater(t, samples, 50, "%v", add(o.of(runs(path))))
}
