// SPDX-License-Identifier: Apache-2.0

// Command demo is the load that `make run` starts on an idle machine, so that there is something to see.
//
// It keeps one thread busy and does seven parts of its work in demoSeventyPercent and three in demoThirtyPercent: a
// profile of it must show these shares. It ends by itself after -duration, at most an hour, and when the process that
// started it has gone.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

const (
	// roundLength is how many units of equal work one round has; its parts are the shares that a profile shows.
	roundLength = 10
	hotUnits    = 7
	// unitSteps is one unit of work, some milliseconds of CPU time.
	unitSteps   = 2_000_000
	maxDuration = time.Hour
)

func main() {
	duration := flag.Duration("duration", 10*time.Minute, "end after this time, at most 1h")
	flag.Parse()
	if *duration <= 0 || *duration > maxDuration {
		fmt.Fprintf(os.Stderr, "demo: -duration %s: must be above 0 and at most %s\n", *duration, maxDuration)
		os.Exit(2)
	}
	runtime.LockOSThread()
	parent := os.Getppid()
	stop := func() bool { return os.Getppid() != parent }
	fmt.Printf("demo: checksum %d\n", run(time.Now().Add(*duration), stop))
}

// run works until the deadline or until stop says so; it returns a checksum so that the work cannot be optimized away.
func run(deadline time.Time, stop func() bool) uint64 {
	var sum uint64
	for time.Now().Before(deadline) && !stop() {
		sum = round(sum)
	}
	return sum
}

// round does one round: the units of both functions in their shares.
func round(sum uint64) uint64 {
	for unit := range roundLength {
		if unit < hotUnits {
			sum = demoSeventyPercent(sum)
		} else {
			sum = demoThirtyPercent(sum)
		}
	}
	return sum
}

//go:noinline
func demoSeventyPercent(sum uint64) uint64 {
	for i := range uint64(unitSteps) {
		sum = sum*6364136223846793005 + i
	}
	return sum
}

//go:noinline
func demoThirtyPercent(sum uint64) uint64 {
	for i := range uint64(unitSteps) {
		sum = sum*2862933555777941757 + i
	}
	return sum
}
