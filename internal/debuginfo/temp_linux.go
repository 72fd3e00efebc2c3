// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// unnamedFile makes a file that has no name and ends with its descriptor.
func unnamedFile(dir string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
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
