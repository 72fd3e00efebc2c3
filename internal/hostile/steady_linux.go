// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
)

const (
	steadyRole = "steady"
	// steadyShare is its share of a CPU.
	steadyShare = 0.4
	// steadyLoops is about a millisecond.
	steadyLoops = 3_000_000
	// steadyFunctions is how many functions its library has.
	steadyFunctions = 6
	goFunction      = "main.steadyGo"
)

// steadyName is the name of a function of its library.
func steadyName(i int) string { return "steady_" + string(rune('a'+i)) }

func steadyFile(dir string) string { return filepath.Join(dir, "libsteady.so") }

// isSteady reports whether a function belongs to the steady service's own work.
func isSteady(function string) bool {
	return function == goFunction || strings.HasPrefix(function, "steady_")
}

// steady is a service that does the same all the time, in the functions of its library and in one of its own.
func steady(args []string) error {
	flags := flag.NewFlagSet(steadyRole, flag.ContinueOnError)
	dir := flags.String("dir", "", "where its library is")
	length := flags.Duration("for", time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	library, err := codefile.Map(steadyFile(*dir), steadyFunctions)
	if err != nil {
		return err
	}
	turn, sum := 0, uint64(0)
	until(time.Now().Add(*length), steadyShare, func() {
		if turn = (turn + 1) % (steadyFunctions + 1); turn == steadyFunctions {
			sum += steadyGo(steadyLoops)
			return
		}
		library.Call(turn)
	})
	_, err = fmt.Println(sum) // so that the sum is needed
	return err
}

//go:noinline
func steadyGo(n uint64) (sum uint64) {
	for i := range n {
		sum += i ^ sum>>3
	}
	return sum
}
