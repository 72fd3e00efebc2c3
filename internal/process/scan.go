// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// ScanResult is the result of a scan.
type ScanResult struct {
	// Seen processes exist, Added ones were not known before, Ended ones have exited, and Changed ones run another program or have another
	// name. Changes that events had already reported are not counted.
	Seen, Added, Ended, Changed int
	// Duration is how long it took.
	Duration time.Duration
}

// scanner is one scan that runs.
type scanner struct {
	table  *Table
	dir    directory
	number uint64
	result ScanResult
	buf    [4096]byte
	path   []byte
}

// Scan compares the table with /proc: it finds what started, exited, ran another program or began to listen without an event. Of a process
// that is known and did not change it reads no more than stat. A scan that is cancelled removes nothing.
func (t *Table) Scan(ctx context.Context) (ScanResult, error) {
	t.scanning.Lock()
	defer t.scanning.Unlock()
	defer t.notify()
	start := time.Now()
	if offset, err := readBootOffset(); err == nil {
		t.bootOffset.Store(offset)
	}
	dir, err := openDirectory(t.fs.root)
	if err != nil {
		return ScanResult{}, fmt.Errorf("opening %s: %w", t.fs.root, err)
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	s := &scanner{table: t, dir: dir, number: t.beginScan()}
	err = t.fs.pids(func(pid uint32) error {
		s.visit(pid)
		return ctx.Err()
	})
	if err == nil && t.ports.used() {
		err = s.visitPorts(ctx)
	}
	if err == nil {
		err = s.visitNarrowings(ctx)
	}
	if err != nil {
		return s.result, fmt.Errorf("scanning %s: %w", t.fs.root, err)
	}
	s.result.Duration = time.Since(start)
	t.endScan(s)
	return s.result, nil
}

func (t *Table) beginScan() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scan++
	return t.scan
}

// endScan removes what was not seen. What was added since the scan began may have been missing in the listing.
func (t *Table) endScan(s *scanner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.byPID {
		if e.scan < s.number {
			t.remove(e)
			s.result.Ended++
		}
	}
	t.expire(t.cfg.Now())
	t.stats.Scans++
	t.stats.LastScan = s.result.Duration
	if t.stats.Scans > 1 {
		return
	}
	if unmatched := t.unmatched(); len(unmatched) > 0 {
		t.cfg.Logger.Warn("selectors match no process so far", zap.Strings("selectors", unmatched))
	}
}

// visit handles one process that is listed.
func (s *scanner) visit(pid uint32) {
	s.path = append(strconv.AppendUint(s.path[:0], uint64(pid), 10), "/stat"...)
	stat, err := s.table.fs.stat(s.dir, pid, string(s.path), s.buf[:])
	if err != nil {
		if !errors.Is(err, ErrGone) {
			s.unreadable(pid)
		}
		return
	}
	s.result.Seen++
	id := model.ProcessID{PID: pid, StartTicks: stat.startTicks}
	if s.compare(id, &stat) {
		// Errors are counted where they happen.
		_, _ = s.table.evaluate(id) //nolint:errcheck // see above
	}
}

// unreadable keeps a process that exists but cannot be read.
func (s *scanner) unreadable(pid uint32) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if e := s.table.byPID[pid]; e != nil {
		e.scan = s.number
	}
}

// compare takes a stat into the table and reports whether the process must be read to decide about it.
func (s *scanner) compare(id model.ProcessID, stat *stat) (read bool) {
	t := s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(id)
	added := e == nil
	if added {
		if t.recent.has(id) {
			return false
		}
		if e = t.insert(id); e == nil {
			return false
		}
		s.result.Added++
	}
	e.scan = s.number
	if stat.executing() {
		if added {
			e.comm = stat.name()
			t.await(e)
		}
		return false // the next scan sees the outcome
	}
	if stat.hidden() && e.decided() {
		return false
	}
	executed := e.changed(stat.image)
	renamed := string(stat.stable()) != e.comm
	if renamed && !added {
		renamed = stat.name() != e.comm
	}
	if executed {
		e.replaced("")
		t.changes.decided(e, Executed)
	}
	if e.image, e.seen, e.kernel = stat.image, true, stat.kernel; renamed {
		e.comm = stat.name()
	}
	if !added && (executed || renamed && e.comm != "") {
		s.result.Changed++
	}
	if !added && !executed && !renamed && !e.undecided {
		return s.confirm(e)
	}
	return t.redecide(e)
}

// confirm reports whether a process must be read once more: many give themselves other arguments soon after their fork or exec, which stat
// does not show. One of the first two scans since then may have come too early.
func (s *scanner) confirm(e *entry) (read bool) {
	if e.confirmed || e.kernel || s.number < e.since+2 {
		return false
	}
	e.confirmed = true
	return s.table.rules.uses&fieldCmdline != 0 || e.described() != nil && s.table.narrowedBy()&fieldCmdline != 0
}

// redecide decides about a process as far as stat allows, or else reports that the process must be read.
func (t *Table) redecide(e *entry) (read bool) {
	if t.rules.needReading() {
		e.undecided = true
		return true
	}
	if e.process != nil {
		e.base, e.process = e.process, nil // outdated, to be read on demand
	}
	e.undecided = false
	e.inScope, e.include = t.rules.decide(&candidate{process: &model.Process{ID: e.id, Comm: e.comm, KernelThread: e.kernel}})
	t.changes.decided(e, unchanged)
	// A kind may have decided by its former name.
	return e.inScope && e.described() != nil && t.narrowedBy()&(fieldComm|fieldCmdline|fieldService) != 0
}
