// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestLiveEnds holds that what a program has in use ends with it: when it runs another program, and when it exits.
func TestLiveEnds(t *testing.T) {
	needRoot(t)
	guest.TakesLong(t)
	path := copyFile(t, testbin.C(t, "testdata/changer.c"), filepath.Join(t.TempDir(), "changer"))
	both := map[string][]int64{"before": nil, "after": nil}
	e := remembering(t, 1, false, process.Selector{Exe: path})
	p := steps(t, path)
	e.attached(3)
	p.step("warm")
	seen := 0
	warm := func() { // until it is attached to, and unwound by its tables
		require.Eventually(t, func() bool {
			e.warmed()
			e.named()
			return len(uses(e.of(runs(path))[seen:], "alloc_space", map[string][]int64{"main": nil})) > 0
		}, time.Minute, 50*time.Millisecond)
	}
	warm()
	first := p.step("done")["before"]
	require.Equal(t, map[string][2]int64{"before": {first[1], first[0]}}, e.inUse(path, both))

	_, err := p.in.Write([]byte("\n")) // exec
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(e.inUse(path, both)) == 0 }, time.Minute, 10*time.Millisecond, "the new program has nothing yet")
	seen = len(e.of(runs(path)))
	e.attached(3)
	p.step("warm")
	warm()
	second := p.step("done")["after"]
	require.Equal(t, map[string][2]int64{"after": {second[1], second[0]}}, e.inUse(path, both))

	_, err = p.in.Write([]byte("\n")) // exit
	require.NoError(t, err)
	require.NoError(t, p.Wait())
	require.Eventually(t, func() bool { return e.Stats().Attached["memory"] == 0 }, time.Minute, 10*time.Millisecond)
	require.Empty(t, e.inUse(path, both))
}
