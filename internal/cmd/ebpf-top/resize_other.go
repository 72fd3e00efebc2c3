// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "os"

// resizeSignals: none on this platform. The next list has the new size.
var resizeSignals []os.Signal
