// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	_, err := parseOptions(os.Args[1:], nil)
	fmt.Fprintln(os.Stderr, "accuracy:", errors.Join(err, errors.New("profiling programs needs Linux")))
	os.Exit(1)
}
