// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns the size of the terminal that f is, by TIOCGWINSZ. A
// terminal that does not know its size is taken for 80 by 24.
func terminalSize(f *os.File) (columns, lines int, ok bool) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false // not a terminal
	}
	if ws.Col == 0 || ws.Row == 0 {
		return 80, 24, true
	}
	return int(ws.Col), int(ws.Row), true
}
