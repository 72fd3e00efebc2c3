// SPDX-License-Identifier: Apache-2.0

// Command demo is the load that `make run` starts, so that there is something to see on an idle machine.
//
// It keeps one thread busy, or a share of its time, and does seven parts of its work in demoSeventyPercent and three in
// demoThirtyPercent: a profile of it must show these shares. With -shop a second process, the shop, serves HTTP on a port
// of 127.0.0.1, and the first one is its customer: 25 requests per second, some of which fail, and payments that are slow
// for 20 of every 90 seconds. It ends by itself after -duration, at most an hour, and when the process that started it has
// exited.
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
	if len(os.Args) == 2 && os.Args[1] == shopCommand {
		if err := serveShop(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "demo: shop:", err)
			os.Exit(1)
		}
		return
	}
	duration := flag.Duration("duration", 10*time.Minute, "end after this time, at most 1h")
	share := flag.Float64("share", 1, "the share of its time that the thread is busy, above 0 and at most 1")
	withShop := flag.Bool("shop", false, "also serve HTTP in a second process, and send it requests")
	flag.Parse()
	if *duration <= 0 || *duration > maxDuration {
		fmt.Fprintf(os.Stderr, "demo: -duration %s: must be above 0 and at most %s\n", *duration, maxDuration)
		os.Exit(2)
	}
	if !(*share > 0 && *share <= 1) {
		fmt.Fprintf(os.Stderr, "demo: -share %v: must be above 0 and at most 1\n", *share)
		os.Exit(2)
	}
	runtime.LockOSThread()
	if *withShop {
		stop, err := openShop()
		if err != nil {
			fmt.Fprintln(os.Stderr, "demo:", err)
			os.Exit(1)
		}
		defer stop()
	}
	parent := os.Getppid()
	stop := func() bool { return os.Getppid() != parent }
	fmt.Printf("demo: checksum %d\n", run(time.Now().Add(*duration), *share, stop))
}

// run works for a share of the time until the deadline or until stop says so; it returns a checksum so that the work cannot
// be optimized away.
func run(deadline time.Time, share float64, stop func() bool) uint64 {
	var sum uint64
	for time.Now().Before(deadline) && !stop() {
		begin := time.Now()
		sum = round(sum)
		if share < 1 {
			time.Sleep(time.Duration(float64(time.Since(begin)) * (1/share - 1)))
		}
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
