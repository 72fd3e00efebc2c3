// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sampleKnown(n int) *Known {
	k := NewKnown("file 1")
	for i := range n {
		f := &Function{Name: fmt.Sprint("f", i%7), Linkage: fmt.Sprint("_Zf", i%7), File: "/src/f.cc", Line: uint32(i % 7)}
		k.Put(uint64(0x1000+16*i), []Line{{f, "/src/f.h", uint32(i)}, {f, "/src/f.cc", 3}, {nil, "", 0}})
	}
	return k
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c, err := OpenCache(dir, 1<<20)
	require.NoError(t, err)
	_, err = c.Load("abcd-12", "file 1")
	require.ErrorIs(t, err, fs.ErrNotExist)
	k := sampleKnown(100)
	require.Equal(t, 100, k.Changed())
	require.Len(t, k.functions, 7)
	require.NoError(t, c.Store("abcd-12", k))
	require.Zero(t, k.Changed())
	info, err := os.Stat(filepath.Join(dir, "abcd-12.lines"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	got, err := c.Load("abcd-12", "file 1")
	require.NoError(t, err)
	require.Equal(t, k.lines, got.lines)
	require.Equal(t, k.Bytes(), got.Bytes())
	require.Zero(t, got.Changed())
	for _, bad := range []string{"", "../x", "ABC", "a/b", strings.Repeat("a", 201)} {
		require.Error(t, c.Store(bad, k), bad)
	}
	for i := range maxKnown + 5 {
		k.Put(uint64(i)<<32, []Line{{Line: 1}})
	}
	require.Len(t, k.lines, maxKnown)

	// Every damaged byte is noticed, and the file is removed then.
	name := filepath.Join(dir, "abcd-12.lines")
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for i := 0; i < len(whole); i += 7 {
		damaged := append([]byte{}, whole...)
		damaged[i] ^= 0x40
		require.NoError(t, os.WriteFile(name, damaged, 0o600))
		_, err = c.Load("abcd-12", "file 1")
		require.ErrorIs(t, err, ErrCache, i)
		require.ErrorContains(t, err, name)
		require.NoFileExists(t, name)
	}
	// A link is not followed.
	require.NoError(t, os.WriteFile(dir+"/other", whole, 0o600))
	require.NoError(t, os.Symlink(dir+"/other", name))
	_, err = c.Load("abcd-12", "file 1")
	require.Error(t, err)
}

func TestCacheBound(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	size := int64(len(sampleKnown(100).encode()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, cacheTemp+"1"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "not-ours"), make([]byte, 1<<20), 0o600))
	c, err := OpenCache(dir, 3*size)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, cacheTemp+"1"))
	for i := range 5 {
		name := fmt.Sprint("0", i)
		require.NoError(t, c.Store(name, sampleKnown(100)))
		at := time.Now().Add(time.Duration(i-100) * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(dir, name+".lines"), at, at))
		if i >= 2 {
			_, err = c.Load("00", "file 1") // the first is used, so that it stays
			require.NoError(t, err)
		}
	}
	files, err := filepath.Glob(dir + "/*.lines")
	require.NoError(t, err)
	require.Equal(t, []string{dir + "/00.lines", dir + "/03.lines", dir + "/04.lines"}, files)
	require.ErrorIs(t, c.Store("05", sampleKnown(2000)), ErrTooLarge)
	require.FileExists(t, filepath.Join(dir, "not-ours"))

	require.NoError(t, os.Chmod(dir, 0o722)) //nolint:gosec // the point of the test
	_, err = OpenCache(dir, 1<<20)
	require.ErrorContains(t, err, dir)
}

// FuzzCache reads hostile files.
func FuzzCache(f *testing.F) {
	const head = len(cacheMagic) + 32
	f.Add(sampleKnown(3).encode()[head:])
	f.Add(NewKnown("file 1").encode()[head:])
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := decodeKnown(sealed(b)) // an attacker who writes files can make checksums
		if err != nil {
			require.ErrorIs(t, err, ErrCache)
			return
		}
		again, err := decodeKnown(k.encode())
		require.NoError(t, err)
		require.Equal(t, k.lines, again.lines)
	})
}

// TestCacheOrigin: results of another file with the same key are not used, and what a former version wrote is removed.
func TestCacheOrigin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c, err := OpenCache(dir, 1<<20)
	require.NoError(t, err)
	require.NoError(t, c.Store("ab-cd", sampleKnown(3)))
	_, err = c.Load("ab-cd", "file 2")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = c.Load("ab-cd", "file 1")
	require.NoError(t, err)
	name := filepath.Join(dir, "ab-cd"+cacheSuffix)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append([]byte("EBPFLINES 1\n"), whole[len(cacheMagic):]...), 0o600))
	_, err = c.Load("ab-cd", "file 1")
	require.ErrorIs(t, err, ErrCache)
	require.NoFileExists(t, name)
}
