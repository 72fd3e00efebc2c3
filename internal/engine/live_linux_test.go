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
	e.attached()
	p.step("warm")
	time.Sleep(time.Second) // unwind tables are made
	first := p.step("done")["before"]
	require.Equal(t, map[string][2]int64{"before": {first[1], first[0]}}, e.inUse(path, both))

	_, err := p.in.Write([]byte("\n")) // exec
	require.NoError(t, err)
	left := e.inUse(path, both)
	for deadline := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(deadline); { // until it has run exec
		left = e.inUse(path, both)
	}
	require.Empty(t, left, "the new program has nothing yet")
	e.attached()
	p.step("warm")
	time.Sleep(time.Second)
	second := p.step("done")["after"]
	require.Equal(t, map[string][2]int64{"after": {second[1], second[0]}}, e.inUse(path, both))

	_, err = p.in.Write([]byte("\n")) // exit
	require.NoError(t, err)
	require.NoError(t, p.Wait())
	require.Eventually(t, func() bool { return e.Stats().Attached["memory"] == 0 }, time.Minute, 10*time.Millisecond)
	require.Empty(t, e.inUse(path, both))
}
