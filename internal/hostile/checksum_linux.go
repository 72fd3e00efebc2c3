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
	checksumRole   = "checksum"
	checksumFolder = "checksum"
	// checksumLasts is how long a process of the attack uses one library.
	checksumLasts = 5 * time.Second
)

// checksumSizes are those of the debug files, which have a hole for the most part.
var checksumSizes = []int64{4 << 30, 400 << 20, 60 << 20}

// checksumAttack has users run libraries whose debug files are large and known by their checksums alone.
var checksumAttack = attack{
	name:    "checksum",
	does:    "unprivileged processes map one library after the other whose debug file has gigabytes and no build id",
	prepare: func(s *stage) error { return s.ownFolder(checksumFolder) },
	start:   func(ctx context.Context, s *stage) error { return s.runAll(ctx, other, checksumRole) },
}

// callWithChecksum is one process of the attack.
func callWithChecksum(args []string) error {
	t, err := parseTask(checksumRole, args)
	if err != nil {
		return err
	}
	for n := 0; time.Now().Before(t.end); n++ {
		if err := t.callOneWithChecksum(n); err != nil {
			return err
		}
	}
	return nil
}

func (t task) callOneWithChecksum(n int) error {
	name := filepath.Join(t.dir, checksumFolder, fmt.Sprintf("%d-%d", os.Getpid(), n))
	library, debug := name+".so", name+".debug"
	err := errors.Join(
		codefile.Write(library, codefile.Spec{Functions: 1, Loops: steadyLoops, Stripped: true, DebugLink: filepath.Base(debug), DebugCRC: 1}),
		codefile.Write(debug, codefile.Spec{Functions: 1, Stripped: true}),
		os.Truncate(debug, checksumSizes[n%len(checksumSizes)]),
	)
	if err != nil {
		return err
	}
	m, err := codefile.Map(library, 1)
	if err != nil {
		return err
	}
	until(t.endIn(checksumLasts), t.duty, func() { m.Call(0) })
	return errors.Join(m.Unmap(), os.Remove(library), os.Remove(debug))
}
