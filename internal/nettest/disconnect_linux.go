// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disconnect ends a socket's connection, or what it listens to, and keeps the socket: connect(2) to an address of the family AF_UNSPEC.
func Disconnect(fd int) error {
	var unspecified unix.RawSockaddr
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)), unsafe.Sizeof(unspecified))
	if errno != 0 {
		return errno
	}
	return nil
}
