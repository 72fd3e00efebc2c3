// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestLines has lines in the reports of a program.
func TestLines(t *testing.T) {
	needRoot(t)
	o, path := lined(t)
	p := launch(t, path, endless, "-")
	require.Eventually(t, func() bool { return samplesWithLines(t, o.of(runs(path)), false) > 0 }, time.Minute, 50*time.Millisecond)
	p.kill()
}

// TestMeasureLines has lines in the reports of a program that has ended, the last of them made as the engine stops. An emulated CPU is too slow
// for a program of less than a second.
func TestMeasureLines(t *testing.T) {
	needRoot(t)
	o, path := lined(t)
	work := 1500 * time.Millisecond
	if testbin.UnderRace { // the C library's debug information comes first, and takes ten times as long
		work *= 4
	}
	launch(t, path, milliseconds(work), "-").end()
	o.end()
	require.Greater(t, samplesWithLines(t, o.of(runs(path)), true), 50, "%v", add(o.of(runs(path))))
}

// lined returns an engine that reads debug information, and the program that it observes.
func lined(t *testing.T) (o *observed, path string) {
	t.Helper()
	path = copyFile(t, testbin.C(t, "testdata/chain.c"), filepath.Join(t.TempDir(), "lined"))
	config := configuration(2*time.Millisecond, process.Selector{Exe: path})
	config.Symbols.DebugInfo = true
	return begin(t, config), path
}

// samplesWithLines counts the frames of prologue that have their file and line; complete: all of them must.
func samplesWithLines(t *testing.T, profiles []*model.Profile, complete bool) (samples int) {
	t.Helper()
	for _, p := range profiles {
		for _, s := range p.Samples {
			for _, f := range s.Frames {
				if len(f.Lines) == 0 || f.Lines[0].Function.Name != "prologue" || !complete && f.Lines[0].Function.Filename == "" {
					continue
				}
				line := f.Lines[0]
				require.Equal(t, "chain.c", filepath.Base(line.Function.Filename))
				require.InDelta(t, 13, line.Line, 3, "within the function")
				samples += int(s.Values[0])
			}
		}
	}
	return samples
}
