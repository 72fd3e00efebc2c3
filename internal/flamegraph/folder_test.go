// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func names(t *testing.T, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestFolderKeepsTheLast(t *testing.T) {
	f := &Folder{Dir: filepath.Join(t.TempDir(), "out"), Keep: 2}
	require.NoError(t, os.MkdirAll(f.Past(), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(f.Past(), "2026-notes.html"), nil, 0o600))
	for i := range 4 {
		p := onCPU("s", sample(1, "w"))
		p.Start = start.Add(time.Duration(i) * time.Minute)
		require.NoError(t, f.Write(graph(t, p)))
	}
	require.Equal(t, []string{"2026-11-21T09-02-05Z.html", "2026-11-21T09-03-05Z.html", "2026-notes.html"}, names(t, f.Past()))
	require.Equal(t, []string{"flamegraph.html", "flamegraphs"}, names(t, f.Dir))
	// The latest page has both intervals, those of the past one each.
	var froms []int64
	for _, i := range pageOf(t, f.Latest()).Intervals {
		froms = append(froms, i.From)
	}
	require.Equal(t, []int64{start.Add(2 * time.Minute).UnixMilli(), start.Add(3 * time.Minute).UnixMilli()}, froms)
	require.Len(t, pageOf(t, filepath.Join(f.Past(), "2026-11-21T09-03-05Z.html")).Intervals, 1)
}

// pageOf reads the data of a page back.
func pageOf(t *testing.T, path string) pageData {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return dataOf(t, string(text))
}

func TestKeepLastIsBounded(t *testing.T) {
	of := func(sizes ...int) (out []interval) {
		for i, n := range sizes {
			out = append(out, interval{leftOut: int64(i), drawings: []drawing{{at: make([]int32, n)}}})
		}
		return out
	}
	kept := func(intervals []interval) (out []int64) {
		for _, i := range intervals {
			out = append(out, i.leftOut)
		}
		return out
	}
	require.Equal(t, []int64{1, 2, 3}, kept(keepLast(of(1, 1, 1, 1), 3)))
	require.Equal(t, []int64{2, 3}, kept(keepLast(of(1, maxDrawn/2, maxDrawn/4, maxDrawn/2), 9)))
	require.Equal(t, []int64{1}, kept(keepLast(of(1, 2*maxDrawn), 9)), "the newest stays")
	require.Equal(t, []int64{0}, kept(keepLast(of(1), 1)))

	long := of(1, 1, 1)
	for i := range long {
		long[i].drawings[0].labels = []label{{name: strings.Repeat("x", maxKept/2)}}
	}
	require.Equal(t, []int64{1, 2}, kept(keepLast(long, 9)))
}

// TestFolderFollowsNoLink checks that who may write to the folder cannot lead the writer elsewhere.
func TestFolderFollowsNoLink(t *testing.T) {
	f := &Folder{Dir: t.TempDir(), Keep: 1}
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(f.Dir, temporaryName)))
	require.NoError(t, os.Symlink(victim, f.Latest()))
	require.NoError(t, f.Write(graph(t, onCPU("s", sample(1, "w")))))
	text, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	info, err := os.Lstat(f.Latest())
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
}

func TestFolderErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, (&Folder{Dir: file, Keep: 1}).Write(&Graph{}), "creating the folder of flame graphs: mkdir "+file)

	f := &Folder{Dir: t.TempDir(), Keep: 1}
	require.NoError(t, os.Mkdir(f.Latest(), 0o755))
	require.ErrorContains(t, f.Write(&Graph{}), "writing a flame graph: rename ")
	require.Equal(t, []string{"flamegraph.html", "flamegraphs"}, names(t, f.Dir), "nothing is left behind")
}
