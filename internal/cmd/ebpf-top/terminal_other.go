// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os"

// terminalSize knows no terminal on this platform: lists are appended.
func terminalSize(*os.File) (columns, lines int, ok bool) { return 0, 0, false }
