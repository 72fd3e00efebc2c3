// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
)

const (
	mapsRole, mapsChildRole = "maps", "maps-child"
	mapsFolder              = "maps"
	// mapsOf is how many files a process of the attack maps in each turn, which lasts mapsLasts.
	mapsOf    = 300
	mapsLasts = time.Second
)

// mapsAttack has users map files that no process has mapped before: opening them, and making their unwind tables, is work of the receiver.
var mapsAttack = attack{
	name:    "maps",
	does:    "unprivileged processes map 300 new files every second, half of them in a new process each time",
	prepare: func(s *stage) error { return s.ownFolder(mapsFolder) },
	start:   func(ctx context.Context, s *stage) error { return s.runAll(ctx, other, mapsRole) },
}

// mapFiles is one process of the attack. Those with an odd number have children do it.
func mapFiles(args []string) error {
	t, err := parseTask(mapsRole, args)
	if err != nil {
		return err
	}
	for time.Now().Before(t.end) {
		end := t.endIn(mapsLasts)
		if os.Getpid()%2 == 0 {
			err = t.mapOnce(end)
		} else {
			err = t.mapInChild(end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t task) mapInChild(end time.Time) error {
	cmd := exec.Command("/proc/self/exe", mapsChildRole, "-dir", t.dir, "-for", time.Until(end).String(), "-duty", fmt.Sprint(t.duty))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", mapsChildRole, err)
	}
	return nil
}

// mapFilesOnce is one child.
func mapFilesOnce(args []string) error {
	t, err := parseTask(mapsChildRole, args)
	if err != nil {
		return err
	}
	return t.mapOnce(t.end)
}

// mapOnce maps new files, and executes them until a time. They have no name by then.
func (t task) mapOnce(end time.Time) (err error) {
	var mapped []codefile.Mapped
	defer func() {
		for _, m := range mapped {
			err = errors.Join(err, m.Unmap())
		}
	}()
	for i := range mapsOf {
		name := fmt.Sprintf("%d-%d-%d", os.Getpid(), time.Now().UnixNano(), i)
		path := filepath.Join(t.dir, mapsFolder, name)
		if err := codefile.Write(path, codefile.Spec{Functions: 1, Loops: steadyLoops, Stripped: true, BuildID: []byte(name)}); err != nil {
			return err
		}
		m, err := codefile.Map(path, 1)
		if err := errors.Join(err, os.Remove(path)); err != nil {
			return err
		}
		mapped = append(mapped, m)
	}
	n := 0
	until(end, t.duty, func() {
		mapped[n%len(mapped)].Call(0)
		n++
	})
	return nil
}
