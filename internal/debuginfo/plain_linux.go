// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"io/fs"
	"os"
	"syscall"
)

// openPlain opens a file for reading, but follows no link and never blocks.
func openPlain(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
