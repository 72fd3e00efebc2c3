// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cpioEntry is what the reader below finds.
type cpioEntry struct {
	name string
	mode uint64
	body string
}

// readCpio reads an archive back, by the format's description rather than by the writer.
func readCpio(t *testing.T, data []byte) []cpioEntry {
	var all []cpioEntry
	for at := 0; ; {
		require.Zero(t, at%4, "entries are aligned")
		require.Equal(t, "070701", string(data[at:at+6]))
		field := func(i int) int {
			v, err := strconv.ParseUint(string(data[at+6+8*i:at+14+8*i]), 16, 32)
			require.NoError(t, err)
			return int(v)
		}
		size, nameSize := field(6), field(11)
		name := string(data[at+110 : at+110+nameSize-1])
		body := (at + 110 + nameSize + 3) &^ 3
		if name == "TRAILER!!!" {
			return all
		}
		all = append(all, cpioEntry{name, uint64(field(1)), string(data[body : body+size])})
		at = (body + size + 3) &^ 3
	}
}

func TestArchive(t *testing.T) {
	source := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(source, "fuzz", "FuzzX"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(source, "fuzz", "FuzzX", "seed"), []byte("abcde"), 0o644))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(source, "link")))

	var out bytes.Buffer
	a := newArchive(&out)
	require.NoError(t, a.file("/init", 0o755, 3, strings.NewReader("ELF")))
	require.NoError(t, a.link("/bin/true", "/init"))
	require.NoError(t, a.dir("/bin"))
	require.NoError(t, a.tree("/src/testdata", source))
	require.NoError(t, a.tree("/src/absent", filepath.Join(source, "absent")))
	require.NoError(t, a.close())

	require.Equal(t, []cpioEntry{
		{"init", modeFile | 0o755, "ELF"},
		{"bin", modeDir | 0o755, ""},
		{"bin/true", modeLink | 0o777, "/init"},
		{"src", modeDir | 0o755, ""},
		{"src/testdata", modeDir | 0o755, ""},
		{"src/testdata/fuzz", modeDir | 0o755, ""},
		{"src/testdata/fuzz/FuzzX", modeDir | 0o755, ""},
		{"src/testdata/fuzz/FuzzX/seed", modeFile | 0o644, "abcde"},
	}, readCpio(t, out.Bytes()))
}

// TestArchiveRefuses checks that a file which shrank or is too large does not yield a broken archive in silence.
func TestArchiveRefuses(t *testing.T) {
	a := newArchive(io.Discard)
	require.ErrorIs(t, a.file("/short", 0o644, 10, strings.NewReader("abc")), io.ErrUnexpectedEOF)
	require.ErrorContains(t, a.file("/huge", 0o644, 1<<32, nil), "more than the format holds")
	require.ErrorIs(t, a.copy("/x", filepath.Join(t.TempDir(), "absent")), os.ErrNotExist)
}
