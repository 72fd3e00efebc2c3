// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// bloated builds a program whose names are followed by so many zeros, compressed; claim, if not 0, is the size that the section claims.
func bloated(t *testing.T, zeros int, claim uint64) (plain, file string) {
	t.Helper()
	plain = build(t, "g++", cplusplus, "-O2", "-g")
	dir := t.TempDir()
	run(t, dir, "objcopy", "--dump-section", ".debug_str=names", plain, "copy")
	names, err := os.OpenFile(filepath.Join(dir, "names"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = names.Write(make([]byte, zeros))
	require.NoError(t, err)
	require.NoError(t, names.Close())
	run(t, dir, "objcopy", "--update-section", ".debug_str=names", plain, "copy")
	run(t, dir, "objcopy", "--compress-debug-sections=zlib", "copy", "program")
	file = filepath.Join(dir, "program")
	parsed, err := elf.Open(file)
	require.NoError(t, err)
	at := parsed.Section(".debug_str").Offset + 8 // ch_size of Elf64_Chdr
	require.NoError(t, parsed.Close())
	if claim > 0 {
		patched, err := os.OpenFile(file, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = patched.WriteAt(enc.NativeEndian.AppendUint64(nil, claim), int64(at))
		require.NoError(t, err)
		require.NoError(t, patched.Close())
	}
	return plain, file
}

// TestInflateInSlices checks that compressed sections can be inflated in slices, and are the same then.
func TestInflateInSlices(t *testing.T) {
	plain, file := bloated(t, 8<<20, 0)
	space := new(Workspace)
	opening, err := Begin(imageOf(t, file), Options{Workspace: space})
	require.NoError(t, err)
	slices := 0
	for opening.Inflate(1 << 20) {
		slices++
	}
	require.InDelta(t, 8, slices, 1)
	require.Greater(t, space.InFiles(), uint64(8<<20))
	d, err := opening.Finish()
	require.NoError(t, err)
	require.Equal(t, space.InFiles(), d.InFiles())
	requireEqual(t, plain, open(t, plain, Options{}), d)
	require.NoError(t, d.Close())
	require.Zero(t, space.InFiles())

	opening, err = Begin(imageOf(t, file), Options{Workspace: space})
	require.NoError(t, err)
	require.True(t, opening.Inflate(1<<20))
	require.NoError(t, opening.Close(), "in the middle")
	require.Zero(t, space.InFiles())
}

// TestInflatedTogether checks that what several binaries inflate into files has a common bound, and that space that one frees is available to
// another.
func TestInflatedTogether(t *testing.T) {
	const zeros = maxWithoutFile
	_, file := bloated(t, 2*zeros, 0)
	const others = maxInflated - 3*zeros
	space := &Workspace{inFiles: others}
	inflate := func() *Opening {
		opening, err := Begin(imageOf(t, file), Options{Workspace: space})
		require.NoError(t, err)
		for opening.Inflate(4 << 20) {
		}
		return opening
	}
	first, second := inflate(), inflate()
	require.Less(t, space.InFiles(), uint64(maxInflated))
	d, err := second.Finish()
	require.NoError(t, err, "names are read when they are needed")
	for _, address := range addressesOf(t, file, 100) {
		_, wrong := d.Lookup(address, nil)
		err = errors.Join(err, wrong)
	}
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "for all binaries")
	require.NoError(t, d.Close())
	require.NoError(t, first.Close())
	require.Equal(t, uint64(others), space.InFiles())
	third := inflate()
	require.Greater(t, space.InFiles(), uint64(others+2*zeros))
	require.NoError(t, third.Close())
}

// TestInflatedTooFar checks that a section which claims to hold more than can be compressed into it is refused before anything is inflated.
func TestInflatedTooFar(t *testing.T) {
	_, file := bloated(t, 1<<20, 1<<30)
	space := new(Workspace)
	opening, err := Begin(imageOf(t, file), Options{Workspace: space})
	require.NoError(t, err, "there are other sections")
	require.False(t, opening.Inflate(1<<30))
	_, err = opening.Finish()
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, ".debug_str")
	require.Zero(t, space.InFiles())
}
