// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/hostile/codefile"
)

const (
	readerRole = "reader"
	// openReaderRole has a perf map of its own: it shows that code of this kind is named where that is allowed.
	openReaderRole = "open reader"
	// secretPrefix begins the names in a file that root alone may read, openPrefix those in a file of the process itself.
	secretPrefix, openPrefix = "secret_", "open_"
)

func secretFile(dir string) string { return filepath.Join(dir, "secret") }

// secretsAttack has users mount a file of root over their perf maps.
var secretsAttack = attack{
	name: "secrets",
	does: "unprivileged processes mount a file that root alone may read in the place of their perf map",
	prepare: func(s *stage) error {
		if err := os.WriteFile(secretFile(s.dir), perfMap(secretPrefix), 0o600); err != nil {
			return err
		}
		later := time.Now().Add(24 * time.Hour) // a perf map that is older than its process is passed over
		return os.Chtimes(secretFile(s.dir), later, later)
	},
	start: func(ctx context.Context, s *stage) error {
		if err := s.runAll(ctx, otherMounting, readerRole); err != nil {
			return err
		}
		return s.runAs(ctx, otherMounting, openReaderRole, s.task()...)
	},
}

// perfMap names code wherever it will be.
func perfMap(prefix string) []byte {
	text := fmt.Appendf(nil, "%x %x %sline\n", 4096, uint64(1)<<30, prefix)
	for gib := uint64(0); gib < 1<<47; gib += 1 << 36 {
		text = fmt.Appendf(text, "%x %x %s%d\n", gib+4096, uint64(1)<<30, prefix, gib>>36)
	}
	return text
}

func ownPerfMap() string { return fmt.Sprintf("/tmp/perf-%d.map", os.Getpid()) }

// readSecret runs code that belongs to no file, whose names the perf map would have.
func readSecret(args []string) error {
	t, err := parseTask(readerRole, args)
	if err != nil {
		return err
	}
	fd, err := unix.Open(secretFile(t.dir), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("finding the file of root: %w", err)
	}
	defer unix.Close(fd)
	if err := mountOver("/tmp"); err != nil {
		return err
	}
	if err := mountFile(fd, ownPerfMap()); err != nil {
		return err
	}
	return t.callInMemory()
}

// readOwn runs such code with a perf map of its own.
func readOwn(args []string) error {
	t, err := parseTask(openReaderRole, args)
	if err != nil {
		return err
	}
	if err := mountOver("/tmp"); err != nil {
		return err
	}
	if err := os.WriteFile(ownPerfMap(), perfMap(openPrefix), 0o600); err != nil {
		return err
	}
	return t.callInMemory()
}

// callInMemory runs code at an address that perf maps have a name for.
func (t task) callInMemory() error {
	code, err := codefile.InMemory(1<<36+1<<20, steadyLoops)
	if err != nil {
		return err
	}
	until(t.end, t.duty, func() { code.Call(0) })
	return nil
}
