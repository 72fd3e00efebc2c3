// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// resizeSignals are sent when the terminal's size changes.
var resizeSignals = []os.Signal{unix.SIGWINCH}
