// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
)

const (
	symbolsRole = "execute-files"
	symbolFiles = 8
	// symbolLoops is some 0.3 ms of a CPU at 3 GHz.
	symbolLoops = 1_000_000
)

// symbolsAttack has processes execute anywhere in files of a million symbols each: their symbol tables together exceed what
// the receiver may hold of symbols.
var symbolsAttack = attack{
	name: "symbols",
	does: "unprivileged processes map files of a million symbols each and execute at random addresses of them",
	prepare: func(s *stage) error {
		for i := range symbolFiles {
			name := func(n int) string { return "hostile_" + strconv.Itoa(i) + "_" + strconv.Itoa(n) }
			spec := codefile.Spec{Name: name, Functions: s.options.symbols, Loops: symbolLoops}
			if err := codefile.Write(symbolFile(s.dir, i), spec); err != nil {
				return err
			}
		}
		return nil
	},
	start: func(ctx context.Context, s *stage) error {
		for range s.options.processes {
			err := s.run(ctx, unprivileged, symbolsRole, "-dir", s.dir, "-functions", strconv.Itoa(s.options.symbols),
				"-for", s.left().String(), "-duty", fmt.Sprint(s.options.duty))
			if err != nil {
				return err
			}
		}
		return nil
	},
}

func symbolFile(dir string, i int) string {
	return filepath.Join(dir, "symbols-"+strconv.Itoa(i)+".so")
}

// executeFiles is one process of the attack.
func executeFiles(args []string) error {
	flags := flag.NewFlagSet(symbolsRole, flag.ContinueOnError)
	dir := flags.String("dir", "", "where the files are")
	functions := flags.Int("functions", 0, "functions of each file")
	length := flags.Duration("for", time.Second, "how long")
	duty := flags.Float64("duty", 0.1, "share of a CPU")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var files []codefile.Mapped
	for i := range symbolFiles {
		m, err := codefile.Map(symbolFile(*dir, i), *functions)
		if err != nil {
			return err
		}
		files = append(files, m)
	}
	until(time.Now().Add(*length), *duty, func() { files[rand.IntN(len(files))].Call(rand.IntN(*functions)) })
	return nil
}
