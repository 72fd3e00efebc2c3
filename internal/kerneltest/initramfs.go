// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// archive writes a cpio archive of the format newc (Linux: Documentation/driver-api/early-userspace/buffer-format.rst),
// as the kernel takes it for its first root file system. It is not compressed: an emulated CPU would take a minute to unpack
// it.
type archive struct {
	out   *bufio.Writer
	inode uint32
	made  map[string]bool // directories
}

func newArchive(w io.Writer) *archive {
	return &archive{out: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{}}
}

// Bits of st_mode.
const (
	modeFile = 0o100000
	modeDir  = 0o040000
	modeLink = 0o120000
)

// entry writes one entry; name is absolute.
func (a *archive) entry(name string, mode uint32, size int64, body io.Reader) error {
	if size >= 1<<32 {
		return fmt.Errorf("archiving %s: %d bytes, more than the format holds", name, size)
	}
	a.inode++
	name = strings.TrimPrefix(name, "/")
	// magic, inode, mode, uid, gid, nlink, mtime, size, 2 × device, 2 × special device, length of the name, checksum
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	if _, err := io.WriteString(a.out, head+padding(int64(len(head)))); err != nil {
		return fmt.Errorf("archiving %s: %w", name, err)
	}
	if body == nil {
		return nil
	}
	if n, err := io.Copy(a.out, io.LimitReader(body, size)); err != nil || n != size {
		return fmt.Errorf("archiving %s: %d of %d bytes: %w", name, n, size, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	if _, err := io.WriteString(a.out, padding(size)); err != nil {
		return fmt.Errorf("archiving %s: %w", name, err)
	}
	return nil
}

// padding returns what fills n bytes up to a multiple of four.
func padding(n int64) string { return "\x00\x00\x00"[:(4-n%4)%4] }

// dir makes a directory and those above it.
func (a *archive) dir(name string) error {
	if name == "/" || name == "." || a.made[name] {
		return nil
	}
	if err := a.dir(path.Dir(name)); err != nil {
		return err
	}
	a.made[name] = true
	return a.entry(name, modeDir|0o755, 0, nil)
}

// file adds bytes as a file.
func (a *archive) file(name string, mode fs.FileMode, size int64, body io.Reader) error {
	if err := a.dir(path.Dir(name)); err != nil {
		return err
	}
	return a.entry(name, modeFile|uint32(mode.Perm()), size, body)
}

// link adds a symbolic link.
func (a *archive) link(name, target string) error {
	if err := a.dir(path.Dir(name)); err != nil {
		return err
	}
	return a.entry(name, modeLink|0o777, int64(len(target)), strings.NewReader(target))
}

// copy adds a file of this machine.
func (a *archive) copy(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("archiving %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("archiving %s: %w", name, err)
	}
	return a.file(name, info.Mode(), info.Size(), f)
}

// tree adds a folder of this machine with all regular files in it; a folder that is absent adds nothing.
func (a *archive) tree(name, from string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && p == from {
			return nil
		}
		if err != nil {
			return fmt.Errorf("archiving %s: %w", from, err)
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return fmt.Errorf("archiving %s: %w", p, err)
		}
		if d.Type().IsRegular() {
			return a.copy(path.Join(name, filepath.ToSlash(rel)), p)
		}
		return nil
	})
}

// close ends the archive.
func (a *archive) close() error {
	if err := a.entry("TRAILER!!!", 0, 0, nil); err != nil {
		return err
	}
	if err := a.out.Flush(); err != nil {
		return fmt.Errorf("ending the archive: %w", err)
	}
	return nil
}
