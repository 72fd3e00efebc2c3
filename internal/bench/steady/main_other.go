// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "steady: it keeps its rate by clock_nanosleep(2), which Linux has")
	os.Exit(1)
}
