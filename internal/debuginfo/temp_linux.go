// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileShare is the part of a file system's free space that one file may take: it may be memory.
const fileShare = 4

// unnamedFile makes a file without a name, which is freed with its descriptor, for so many bytes.
func unnamedFile(dir string, size uint64) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("how much %s has free: %w", dir, err)
	}
	if most := fs.Bavail * uint64(fs.Bsize) / fileShare; size > most { //nolint:gosec // the kernel reports no negative size
		return nil, fmt.Errorf("%s: %w of %d bytes, a quarter of what is free", dir, ErrTooLarge, most)
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir+"/(inflated)"), nil
	}
	file, err := os.CreateTemp(dir, "ebpf-debuginfo-*") // on a file system without O_TMPFILE
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
