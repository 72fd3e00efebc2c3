// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind/store"
)

const (
	// smallChecksum and largeChecksum bound the debug files whose checksums are compared, in bytes, in the queue of small binaries and in that
	// of large ones, which is paced: some 0.6 ms and 20 ms of work.
	smallChecksum, largeChecksum = 1 << 20, 32 << 20
	// smallBuilding and largeBuilding are the parts of the memory limit, in sixteenths, that a table may take while it is built, in each of the
	// queues. A table and what it is built from are held at a time, some 16 MiB for a binary of 150 MB.
	smallBuilding, largeBuilding = 1, 3
)

// errBuilding is the cause when a table and what it is built from exceed their share of the memory.
var errBuilding = errors.New("more memory than its share of limits::memory_mib; raise that")

// building is the memory of the table that a queue builds, until it is copied to the kernel's maps.
type building struct {
	held  atomic.Int64
	limit int64
}

// reserve counts memory, and gives back where bytes is negative.
func (m *building) reserve(bytes int64) error {
	if m.held.Add(bytes) <= m.limit || bytes <= 0 {
		return nil
	}
	m.held.Add(-bytes)
	return fmt.Errorf("more than %d bytes at a time: %w", m.limit, errBuilding)
}

// buildingBytes is the memory of tables that are being built.
func (u *unwinding) buildingBytes() uint64 {
	return uint64(u.small.building.held.Load() + u.large.building.held.Load()) //nolint:gosec // what is held
}

// acquireAny makes the table of one binary. Of the processes that have the file one may be
// gone: the next one is asked then. Where the file was found to be a copy of another one since,
// the table is that of both.
func (u *unwinding) acquireAny(q *queue, places map[observe.SubjectKey]place) (made []*store.Binary) {
	have := map[string]struct{}{}
	for _, p := range places {
		r := p.space.United(p.region)
		if _, ok := have[r.Content]; ok {
			continue
		}
		var b *store.Binary
		var err error
		work := func() { b, err = u.acquire(q, p.space, r, p.want.key.PID) }
		if q == &u.small {
			p.space.ChargeTable(work)
		} else {
			work() // their queue is paced as a whole
		}
		switch {
		case b != nil:
			made, have[r.Content] = append(made, b), struct{}{}
		case q == &u.small && (errors.Is(err, symbol.ErrChecksumTooLong) || errors.Is(err, errBuilding)):
			u.moveToLarge(r, places)
			return made
		}
	}
	return made
}

// moveToLarge has the table of a small binary made by the queue of large ones, which is paced.
func (u *unwinding) moveToLarge(r symbol.Region, places map[observe.SubjectKey]place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if waiting := u.large.places[r.Content]; waiting != nil {
		maps.Copy(waiting, places)
	} else {
		u.large.add(&r, maps.Clone(places), false)
	}
	rouse(u.large.wake)
}

// acquire makes the table of a region's binary; nil when that went wrong. The error is for the caller alone, what is to be counted is.
func (u *unwinding) acquire(q *queue, space *symbol.AddressSpace, r symbol.Region, pid uint32) (*store.Binary, error) {
	limit := uint64(largeChecksum)
	if q == &u.small {
		limit = smallChecksum
	}
	defer q.building.held.Store(0)
	b, err := u.store.Acquire(r.Content, func() (*unwind.Table, error) { return u.build(q, space, r, limit) })
	if errors.Is(err, symbol.ErrChecksumTooLong) || errors.Is(err, errBuilding) {
		return nil, err
	}
	if err != nil {
		err = fmt.Errorf("making the unwind table of %s of process %d: %w", r.Path(), pid, err)
		u.fail(err)
		return nil, err
	}
	if n := b.Unruled(); n > 0 {
		u.warnings.Warn(fmt.Errorf("making the unwind table of %s of process %d: %d of its rules did not fit in addition to those of other tables: "+
			"narrow targets, or leave out programs with uncommon unwind information", r.Path(), pid, n))
	}
	return b, nil
}

// build makes the table of a region's binary, by its separate debug file, too, where it
// says nothing of most of its frames itself; one that cannot have a table, as one that is
// damaged, has none. What may come right later is an error, which wraps ErrChecksumTooLong where the debug file has
// more than checksum bytes and the other queue compares it, and errBuilding where that has more memory.
func (u *unwinding) build(q *queue, space *symbol.AddressSpace, r symbol.Region, checksum uint64) (_ *unwind.Table, err error) {
	image, closeFile, err := space.OpenRegion(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeFile()) }()
	limits := unwind.Limits{Stop: u.stopping.Load, Reserve: q.building.reserve}
	table, errBuild := unwind.Build(image, limits)
	if errors.Is(errBuild, unwind.ErrNone) || errors.Is(errBuild, unwind.ErrDamaged) || errBuild == nil && table.Sparse() {
		debug, err := space.OpenDebug(r, checksum, u.stopping.Load)
		switch {
		case errors.Is(err, symbol.ErrStopped):
			errBuild = unwind.ErrStopped
		case errors.Is(err, symbol.ErrChecksumTooLong) && checksum < largeChecksum:
			return nil, err
		case err == nil:
			var more *unwind.Table
			if more, errBuild = unwind.Build(image, limits, debug.Image); more != nil {
				table = more
			}
			errBuild = errors.Join(errBuild, debug.Close())
		case !errors.Is(err, symbol.ErrNoDebug):
			errBuild = err
		}
	}
	if q == &u.small && errors.Is(errBuild, errBuilding) {
		return nil, errBuild
	}
	switch {
	case errBuild != nil && !errors.Is(errBuild, unwind.ErrNone) && !errors.Is(errBuild, unwind.ErrStopped):
		u.fail(fmt.Errorf("making the unwind table of %s: %w", r.Path(), errBuild))
	case table != nil && table.Skipped > 0:
		u.incomplete.Add(1)
		u.warnings.Warn(fmt.Errorf("making the unwind table of %s: %d of its parts left out: %w", r.Path(), table.Skipped, table.Err))
	}
	return table, nil
}
