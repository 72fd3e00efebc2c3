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
	// Lingering are exited processes that can still be looked up.
	Lingering int
	// Undecided processes must be read before they are in or out of scope.
	Undecided int
	Scans     uint64
	// LastScan is how long the last full scan took.
	LastScan time.Duration
	// Reads are full readings of one process.
	Reads uint64
	// ReadErrors do not count processes that exited while they were read.
	ReadErrors map[ReadError]uint64
	// Untracked counts how often a process was left out because the table was full; LingerDropped counts exited processes that were removed
	// early because too many exited at once.
	Untracked, LingerDropped uint64
	// EnvironmentUnknown counts processes in scope that exited before their environment was read, and whose exec event has not all of it: the
	// names in it are not reported.
	EnvironmentUnknown uint64
	// Deferred decisions were left to the next scan because too many waited.
	Deferred uint64
	// Unmatched names the selectors that matched no process so far, by their
	// path in the configuration ("targets::include[0]"); those of a [Narrowing]
	// none in scope. Empty before the first scan is done.
	Unmatched []string
}

// readErrors counts errors and logs them; the number of keys is bounded by the program.
type readErrors struct {
	warnings *warn.Rarely

	mu     sync.Mutex
	counts map[ReadError]uint64
	denied map[string]bool // files for which a warning that they may not be read was logged
}

func newReadErrors(logger *zap.Logger, now func() time.Time) *readErrors {
	return &readErrors{warnings: warn.NewRarely(logger, "Part of a process could not be read", now), counts: map[ReadError]uint64{}, denied: map[string]bool{}}
}

// remember leaves out the warnings that were logged before.
func (c *readErrors) remember(warned *warn.Memory) *readErrors {
	c.warnings.Remember(warned)
	return c
}

// count counts an error.
func (c *readErrors) count(file, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[ReadError{File: file, Reason: reason}]++
}

// denies records that a warning about a file that may not be read is logged; first reports whether it is the first one.
func (c *readErrors) denies(file string) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = !c.denied[file]
	c.denied[file] = true
	return first
}

// warn logs an error. It must name the process and the file.
func (c *readErrors) warn(file, reason string, err error) {
	switch {
	case reason != reasonPermission:
		c.warnings.Warn(err)
	case c.denies(file): // without CAP_SYS_PTRACE it is each process at each scan
		c.warnings.Warn(fmt.Errorf("%w: %s. Grant CAP_SYS_PTRACE; where the Collector has it, a security module or a user namespace denies it. "+
			"Other processes of which it may not be read are only counted", err, consequence(file)))
	}
}

// consequence returns what is unknown of a process of which a file may not be read.
func consequence(file string) string {
	switch file {
	case "exe":
		return "without the path of its executable the process is named after its comm, and no selector by exe matches it"
	case "environ":
		return "without its environment the process's service.name is unknown_service where no selector sets one"
	case "cgroup":
		return "without its cgroup the process has no container and no pod, and no selector by them matches it"
	case "cmdline":
		return "without its arguments no selector by cmdline matches the process"
	case "ns/net", "fd", "net/tcp", "net/tcp6", "net/udp", "net/udp6":
		return "without its sockets no selector by port matches the process"
	}
	return "what it says of the process is unknown"
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
