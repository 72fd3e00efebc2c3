// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// journal is a file that is written as a test goes on, and its follower.
type journal struct {
	*File
	t     *testing.T
	lines []string
}

func newJournal(t *testing.T) *journal {
	j := &journal{File: &File{Path: filepath.Join(t.TempDir(), "profiles.json")}, t: t}
	t.Cleanup(j.Close)
	return j
}

func (j *journal) write(text string) {
	f, err := os.OpenFile(j.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(j.t, err)
	_, err = f.WriteString(text)
	require.NoError(j.t, err)
	require.NoError(j.t, f.Close())
}

// news is what one poll yields.
func (j *journal) news() []string {
	j.lines = []string{}
	any, err := j.Poll(func(l []byte) { j.lines = append(j.lines, string(l)) })
	require.NoError(j.t, err)
	require.Equal(j.t, len(j.lines) > 0, any)
	return j.lines
}

func TestFollowGrowth(t *testing.T) {
	j := newJournal(t)
	require.Empty(t, j.news(), "no file yet")
	j.write("one\ntwo\nthr")
	require.Equal(t, []string{"one", "two"}, j.news())
	require.True(t, j.Pending())
	require.Empty(t, j.news())
	j.write("ee")
	require.Empty(t, j.news())
	j.write("\n\n  \nfour\n")
	require.Equal(t, []string{"three", "four"}, j.news())
	require.False(t, j.Pending())
}

func TestFollowRotation(t *testing.T) {
	j := newJournal(t)
	j.write("one\n")
	require.Equal(t, []string{"one"}, j.news())
	j.write("two") // the exporter's line feed comes after the rotation
	require.NoError(t, os.Rename(j.Path, j.Path+".1"))
	require.Empty(t, j.news(), "the new file is not there yet")
	j.write("\nthree\n")
	require.Equal(t, []string{"two", "three"}, j.news())
	require.NoError(t, os.Rename(j.Path, j.Path+".2"))
	j.write("four\n")
	require.Equal(t, []string{"four"}, j.news())
}

func TestFollowTruncation(t *testing.T) {
	j := newJournal(t)
	j.write("one\ntwo\nthr")
	require.Len(t, j.news(), 2)
	require.NoError(t, os.Truncate(j.Path, 0))
	j.write("four\n")
	require.Equal(t, []string{"four"}, j.news())
}

func TestFollowLongLines(t *testing.T) {
	j := newJournal(t)
	j.limit = 10
	j.write("0123456789\n01234567890\nshort\n" + strings.Repeat("x", 3*chunk))
	require.Equal(t, []string{"0123456789", "short"}, j.news())
	require.Less(t, cap(j.line), chunk)
	j.write("\nlast\n")
	require.Equal(t, []string{"last"}, j.news())
	require.Equal(t, 2, j.TakeOversized())
	require.Zero(t, j.TakeOversized())
}

func TestFollowTakesTheEndOfALongFile(t *testing.T) {
	j := newJournal(t)
	long := strings.Repeat("x", 1<<20)
	for range 20 {
		j.write(long + "\n")
	}
	j.write("last\n")
	lines := j.news()
	require.Len(t, lines, 16)
	require.Equal(t, "last", lines[15])
	require.Zero(t, j.TakeOversized())
}

func TestFollowErrors(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "file", "profiles.json")}
	require.NoError(t, os.WriteFile(filepath.Dir(f.Path), nil, 0o600))
	_, err := f.Poll(func([]byte) {})
	require.ErrorContains(t, err, "opening a file to follow: open "+f.Path)

	f = &File{Path: t.TempDir()}
	_, err = f.Poll(func([]byte) {})
	require.ErrorContains(t, err, "reading a file that is followed: read "+f.Path)
	f.Close()
}
