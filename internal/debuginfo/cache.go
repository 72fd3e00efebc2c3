// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	cacheSuffix = ".lines"
	cacheTemp   = ".tmp-"
	cacheMagic  = "EBPFLINES 2\n" // 1 did not contain which file its addresses are of
	maxCached   = 4 << 20         // bytes of one file
)

// ErrCache is the cause when a file of the cache is not what was written.
var ErrCache = errors.New("damaged cache file")

// Cache keeps results about addresses on disk, one file for each binary. It is safe for concurrent use by one process.
//
// Only this user may write to the folder. Files are written under a temporary name and renamed, carry a checksum and are read under bounds. A
// damaged one is removed and ignored.
type Cache struct {
	dir   string
	limit int64
	mu    sync.Mutex
}

// OpenCache prepares a folder as a cache of at most limit bytes.
func OpenCache(dir string, limit int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the symbol cache: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("preparing the symbol cache: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ownedByUs(info) {
		return nil, fmt.Errorf("preparing the symbol cache %s: it must be a folder of this user that no other can write to", dir)
	}
	c := &Cache{dir: dir, limit: limit}
	left, err := filepath.Glob(filepath.Join(dir, cacheTemp+"*"))
	if err != nil {
		return nil, fmt.Errorf("preparing the symbol cache: %w", err)
	}
	for _, name := range left { // of a process that was killed
		if err := os.Remove(name); err != nil {
			return nil, fmt.Errorf("preparing the symbol cache: %w", err)
		}
	}
	return c, c.trim(0)
}

// file returns the path of the file of a key, which names a binary.
func (c *Cache) file(key string) (string, error) {
	if key == "" || len(key) > 200 || strings.Trim(key, "0123456789abcdef-") != "" {
		return "", fmt.Errorf("key %q of the symbol cache: must be lower-case hexadecimal", key)
	}
	return filepath.Join(c.dir, key+cacheSuffix), nil
}

// Load returns what is cached of a binary, of the file that the origin identifies. The error wraps [fs.ErrNotExist] when there is nothing.
func (c *Cache) Load(key, origin string) (*Known, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, err := c.file(key)
	if err != nil {
		return nil, err
	}
	b, err := readCached(name)
	if err != nil {
		return nil, err
	}
	k, err := decodeKnown(b)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(name))
	}
	if k.origin != origin {
		return nil, fmt.Errorf("%s: of another file: %w", name, fs.ErrNotExist)
	}
	now := time.Now()
	return k, os.Chtimes(name, now, now) // the least recently used files are removed first
}

func readCached(name string) ([]byte, error) {
	f, err := openPlain(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxCached {
		return nil, fmt.Errorf("%s: %d bytes, %v: %w", name, info.Size(), info.Mode(), ErrCache)
	}
	return io.ReadAll(io.LimitReader(f, maxCached))
}

// Store writes what is known of a binary.
func (c *Cache) Store(key string, k *Known) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, err := c.file(key)
	if err != nil {
		return err
	}
	b := k.encode()
	if len(b) > maxCached || int64(len(b)) > c.limit {
		return fmt.Errorf("%s: %d bytes: %w", name, len(b), ErrTooLarge)
	}
	if err := c.trim(int64(len(b))); err != nil {
		return err
	}
	if err := c.write(name, b); err != nil {
		return fmt.Errorf("writing the symbol cache: %w", err)
	}
	k.changed = 0
	return nil
}

// write replaces a file in one step.
func (c *Cache) write(name string, b []byte) error {
	f, err := os.CreateTemp(c.dir, cacheTemp+"*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// trim removes the least recently used files until there is space for more bytes.
func (c *Cache) trim(needed int64) error {
	type file struct {
		name string
		size int64
		used time.Time
	}
	var files []file
	var held int64
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("reading the symbol cache: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), cacheSuffix) {
			continue // not ours, or removed meanwhile
		}
		files = append(files, file{e.Name(), info.Size(), info.ModTime()})
		held += info.Size()
	}
	slices.SortFunc(files, func(x, y file) int { return cmp.Or(x.used.Compare(y.used), strings.Compare(x.name, y.name)) })
	for _, f := range files {
		if held+needed <= c.limit {
			break
		}
		if err := os.Remove(filepath.Join(c.dir, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("trimming the symbol cache: %w", err)
		}
		held -= f.size
	}
	return nil
}

// sealed puts magic and checksum before a content.
func sealed(content []byte) []byte {
	sum := sha256.Sum256(content)
	return append(append([]byte(cacheMagic), sum[:]...), content...)
}

// unsealed checks magic and checksum.
func unsealed(b []byte) ([]byte, error) {
	const head = len(cacheMagic) + sha256.Size
	if len(b) < head || string(b[:len(cacheMagic)]) != cacheMagic {
		return nil, ErrCache
	}
	if sum := sha256.Sum256(b[head:]); string(sum[:]) != string(b[len(cacheMagic):head]) {
		return nil, fmt.Errorf("checksum: %w", ErrCache)
	}
	return b[head:], nil
}
