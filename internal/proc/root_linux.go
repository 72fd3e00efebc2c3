// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath is PATH_MAX of Linux.
const maxPath = 4096

// Inside converts a path that the folder of a process shows to the path that the process sees. If the process has changed its root, as by
// chroot(2), the folder's links and maps begin with the root.
func Inside(folder int, path string) string {
	var buf [maxPath]byte
	var n int
	err := again(func() (err error) { n, err = unix.Readlinkat(folder, "root", buf[:]); return err })
	if err != nil {
		return path
	}
	if rest, ok := strings.CutPrefix(path, string(buf[:n])); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}
