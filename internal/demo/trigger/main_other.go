// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "demo-trigger: showing how profiles start by themselves needs Linux")
	os.Exit(1)
}
