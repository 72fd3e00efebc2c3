// SPDX-License-Identifier: Apache-2.0

package freeport

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// defaultEphemeral is the kernel's default for the lowest ephemeral port.
const defaultEphemeral = 32768

func firstEphemeral() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return defaultEphemeral
	}
	lowest, highest := 0, 0
	if _, err := fmt.Sscan(string(text), &lowest, &highest); err != nil {
		return defaultEphemeral
	}
	return lowest
}

// claims is an empty file that all processes of a user share. A port is claimed by a lock of the byte at its offset, which the kernel gives back when the
// process ends (F_OFD_SETLK, fcntl(2)).
type claims struct{ *os.File }

// claim reports whether no other process had claimed the port; now this one has.
func (c *claims) claim(port int) (bool, error) {
	if c.File == nil {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("loopback-ports-%d.lock", os.Getuid()))
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return false, fmt.Errorf("claiming port %d: %w", port, err)
		}
		c.File = file
	}
	err := unix.FcntlFlock(c.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(port), Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claiming port %d in %s: %w", port, c.Name(), err)
	}
	return true, nil
}
