// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// Reasons in [ReadError].
const (
	// reasonPermission: mostly CAP_SYS_PTRACE is missing (exe, environ, fd, ns).
	reasonPermission = "permission"
	reasonIO         = "io"
	reasonMalformed  = "malformed"
	// reasonTooLarge: only a part was read.
	reasonTooLarge = "too_large"
)

// ReadError is a kind of error in reading /proc.
type ReadError struct {
	// File is the name below /proc/PID, or empty for the directory itself.
	File string
	// Reason is permission (CAP_SYS_PTRACE is missing), io, malformed or
	// too_large (a part was read).
	Reason string
}

// Stats is the state of a table. Counts are since it was made.
type Stats struct {
	// Known and InScope count the running processes.
	Known, InScope int
	// Lingering are ended processes that can still be looked up.
	Lingering int
	// Undecided wait for being read before they are in or out of scope.
	Undecided int
	Scans     uint64
	// LastScan is how long the last full scan took.
	LastScan time.Duration
	// Reads are full readings of one process.
	Reads uint64
	// ReadErrors do not count processes that ended while they were read.
	ReadErrors map[ReadError]uint64
	// Untracked counts how often a process was left out because the table was
	// full; LingerDropped were forgotten early because too many ended at once.
	Untracked, LingerDropped uint64
	// Deferred decisions were left to the next scan because too many waited.
	Deferred uint64
	// Unmatched names the selectors that matched no process so far, by their
	// path in the configuration ("targets::include[0]"); those of a [Narrowing]
	// none in scope. Empty before the first scan is done.
	Unmatched []string
}

// readErrors counts errors and warns of them; the number of keys is bounded by the program.
type readErrors struct {
	warnings *warn.Rarely

	mu     sync.Mutex
	counts map[ReadError]uint64
}

func newReadErrors(logger *zap.Logger, now func() time.Time) *readErrors {
	return &readErrors{warnings: warn.NewRarely(logger, "Part of a process could not be read", now), counts: map[ReadError]uint64{}}
}

// note counts an error and warns of it. It must name the process and the file.
func (c *readErrors) note(file, reason string, err error) {
	key := ReadError{File: file, Reason: reason}
	c.mu.Lock()
	c.counts[key]++
	first := c.counts[key] == 1
	c.mu.Unlock()
	switch {
	case reason != reasonPermission:
		c.warnings.Warn(err)
	case first: // without CAP_SYS_PTRACE it is each process at each scan
		c.warnings.Warn(fmt.Errorf("%w; other processes of which it may not be read are only counted", err))
	}
}

func (c *readErrors) snapshot() map[ReadError]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Stats returns the state of the table.
func (t *Table) Stats() Stats {
	t.mu.RLock()
	s := t.stats
	s.Known, s.Lingering = len(t.byPID), len(t.lingering)
	for _, e := range t.byPID {
		if e.inScope {
			s.InScope++
		}
		if e.undecided {
			s.Undecided++
		}
	}
	t.mu.RUnlock()
	s.Reads = t.reads.Load()
	s.ReadErrors = t.fs.errors.snapshot()
	if s.Scans > 0 {
		s.Unmatched = t.unmatched()
	}
	return s
}
