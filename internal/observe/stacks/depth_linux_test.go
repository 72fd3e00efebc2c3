// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeSysctl(t *testing.T, root, text string) {
	t.Helper()
	path := filepath.Join(root, "sys/kernel/perf_event_max_stack")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestDepthOf(t *testing.T) {
	root := t.TempDir()
	writeSysctl(t, root, "127\n")
	for max, want := range map[int]Depth{
		1: {Cut{2, 1}, Cut{2, 1}}, 126: {Cut{127, 126}, Cut{127, 126}}, 127: {Cut{128, 127}, Cut{127, 127}},
		1023: {Cut{1024, 1023}, Cut{127, 127}}, 5000: {Cut{1024, 1023}, Cut{127, 127}},
	} {
		got, err := DepthOf(max, root)
		require.NoError(t, err)
		require.Equal(t, want, got, "max_depth %d", max)
	}
	writeSysctl(t, root, "8\n")
	got, err := DepthOf(127, root)
	require.NoError(t, err)
	require.Equal(t, Depth{Cut{128, 127}, Cut{8, 8}}, got, "the kernel goes no deeper in its own stacks")
	require.Equal(t, 88+8*136, got.EntryBytes())

	writeSysctl(t, root, "deep")
	_, err = DepthOf(127, root)
	require.ErrorContains(t, err, "reading "+root+"/sys/kernel/perf_event_max_stack: ")
	_, err = DepthOf(127, root+"/none")
	require.ErrorContains(t, err, "reading how deep the kernel unwinds: ")
}
