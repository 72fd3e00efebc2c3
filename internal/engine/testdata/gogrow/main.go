// SPDX-License-Identifier: Apache-2.0

// Gogrow does little but grow the stacks of new goroutines: gogrow MILLISECONDS.
package main

import (
	"os"
	"strconv"
	"time"
)

//go:noinline
func deeper(n int) byte {
	var here [1024]byte
	here[n%len(here)] = byte(n)
	if n == 0 {
		return here[0]
	}
	return deeper(n-1) + here[n%len(here)]
}

func main() {
	ms, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	done := make(chan byte)
	for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
		go func() { done <- deeper(100) }()
		<-done
	}
}
