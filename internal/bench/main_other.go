// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	_, err := parseOptions(os.Args[1:])
	fmt.Fprintln(os.Stderr, "bench:", errors.Join(err, errors.New("measuring the receiver needs Linux")))
	os.Exit(1)
}
