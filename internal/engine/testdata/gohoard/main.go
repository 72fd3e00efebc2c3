// SPDX-License-Identifier: Apache-2.0

// Command gohoard allocates by two functions and prints, as Go's runtime counts them, for each a line of name, objects and
// bytes. It waits for a line of input before it starts, between its steps and at the end: warm up, allocate.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

const rounds = 3000

var sink []byte

//go:noinline
func small() { sink = make([]byte, 8192) }

//go:noinline
func large() { sink = make([]byte, 40*8192) }

// count allocates and returns what the runtime says of it.
func count(allocate func()) (objects, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		allocate()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

func main() {
	runtime.LockOSThread()
	debug.SetGCPercent(400)
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	for range 20 {
		large()
		time.Sleep(time.Millisecond)
	}
	fmt.Println("warm 0 0")
	in.Scan()
	objects, bytes := count(small)
	fmt.Println("main.small", objects, bytes)
	objects, bytes = count(large)
	fmt.Println("main.large", objects, bytes)
	fmt.Println("done 0 0")
	in.Scan()
}
