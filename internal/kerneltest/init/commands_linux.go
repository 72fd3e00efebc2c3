// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// commands are what tests may expect in the path: as much of each as they use.
var commands = map[string]func(args []string) (exit int){
	"true":  func([]string) int { return 0 },
	"false": func([]string) int { return 1 },
	"sleep": sleep,
}

// sleep waits for a number of seconds, fractions allowed.
func sleep(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "sleep: one argument wanted, the seconds")
		return 1
	}
	seconds, err := strconv.ParseFloat(args[0], 64)
	if err != nil || seconds < 0 {
		fmt.Fprintf(os.Stderr, "sleep: %q is no number of seconds\n", args[0])
		return 1
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	return 0
}
