// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
)

const (
	linksRole   = "links"
	linksFolder = "links"
	// linksLasts is how long a process of the attack has its files mapped, and linksOf and copiesOf how many they are.
	linksLasts        = 5 * time.Second
	linksOf, copiesOf = 300, 20
	// linksHole is the part of each file that is a hole, in bytes: the most that the receiver sums.
	linksHole = 127 << 20
)

// linksAttack has users run files that take long to be compared with others, each under many names.
var linksAttack = attack{
	name:    "links",
	does:    "unprivileged processes map 300 hard links of a file of 127 MiB, or 20 copies, and new ones every 5 seconds",
	prepare: func(s *stage) error { return s.ownFolder(linksFolder) },
	start:   func(ctx context.Context, s *stage) error { return s.runAll(ctx, other, linksRole) },
}

// callLinks is one process of the attack.
func callLinks(args []string) error {
	t, err := parseTask(linksRole, args)
	if err != nil {
		return err
	}
	for n := os.Getpid(); time.Now().Before(t.end); n++ {
		if err := t.callLinksOnce(n%2 == 0); err != nil {
			return err
		}
	}
	return nil
}

// callLinksOnce maps hard links of a new file, or copies of it.
func (t task) callLinksOnce(copies bool) (err error) {
	dir, err := os.MkdirTemp(filepath.Join(t.dir, linksFolder), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	spec := codefile.Spec{Functions: 1, Loops: steadyLoops, Stripped: true, Hole: linksHole, BuildID: []byte(filepath.Base(dir))}
	first := filepath.Join(dir, "first")
	if err := codefile.Write(first, spec); err != nil {
		return err
	}
	files := linksOf
	if copies {
		files = copiesOf
	}
	var mapped []codefile.Mapped
	defer func() {
		for _, m := range mapped {
			err = errors.Join(err, m.Unmap())
		}
	}()
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i))
		if copies {
			err = codefile.Write(path, spec)
		} else {
			err = os.Link(first, path)
		}
		if err != nil {
			return err
		}
		m, err := codefile.Map(path, 1)
		if err != nil {
			return err
		}
		mapped = append(mapped, m)
	}
	n := 0
	until(t.endIn(linksLasts), t.duty, func() {
		mapped[n%len(mapped)].Call(0)
		n++
	})
	return nil
}
