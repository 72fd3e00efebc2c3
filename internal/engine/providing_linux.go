// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind/store"
)

const (
	// largeBytes is the size of files whose tables nobody else waits for. A table
	// takes some 4 ms per MiB of the file at most.
	largeBytes = 4 << 20
	// tellMin is how long tables that are made wait at most for others, so that one
	// list tells of several; tellShare bounds what part of the time goes into lists.
	tellMin, tellShare = 5 * time.Millisecond, 5
)

// queue is the binaries that lack tables, and who waits for them. One goroutine works at it.
type queue struct {
	wake chan struct{}

	// Guarded by the lock of unwinding. places are by content: there is one for each
	// binary and subject, and subjects are bounded.
	places map[string]map[observe.SubjectKey]place
	busy   bool // with what is in places no more

	// Of the goroutine: tables that are made and not told of yet, and to whom they are to be told.
	made   []*store.Binary
	untold map[observe.SubjectKey]place
	toldAt time.Time
	pause  time.Duration // until tables are told of again
}

// place is where a binary can be read.
type place struct {
	space  *symbol.AddressSpace
	region symbol.Region
	want   wanted
}

func newQueue() queue {
	return queue{
		wake: make(chan struct{}, 1), places: map[string]map[observe.SubjectKey]place{}, untold: map[observe.SubjectKey]place{},
	}
}

// idle tells whether all tables are made and told of. The caller holds the lock.
func (q *queue) idle() bool { return len(q.places) == 0 && !q.busy }

// run reads mappings again that have changed, and makes the tables of small binaries, until
// the context ends. charge takes the cost of work.
func (u *unwinding) run(ctx context.Context, charge func(func())) {
	for u.small.wait(ctx) {
		for more := true; more && ctx.Err() == nil; {
			w, later, due := u.next()
			if due {
				charge(func() { u.provide(w) })
				u.done(&u.small)
			}
			// In turns with these: where programs start all the time, some are always due.
			charge(func() { more = u.work(&u.small) || due })
			if !more && later > 0 {
				time.AfterFunc(later, func() { rouse(u.small.wake) })
			}
		}
	}
}

// runLarge makes the tables of large binaries until the context ends.
func (u *unwinding) runLarge(ctx context.Context, charge func(func())) {
	for u.large.wait(ctx) {
		for more := true; more && ctx.Err() == nil; {
			charge(func() { more = u.work(&u.large) })
		}
	}
}

// wait waits until there may be work; false when the context has ended.
func (q *queue) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-q.wake:
		return true
	}
}

// next takes the next subject that is due; later is when one will be, 0 for never.
func (u *unwinding) next() (w wanted, later time.Duration, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, w := range u.due {
		if wait := w.wait(); wait > 0 {
			if later == 0 || wait < later {
				later = wait
			}
			continue
		}
		delete(u.due, key)
		u.small.busy = true
		return w, 0, true
	}
	return wanted{}, later, false
}

// wait is how long the mappings are not to be read again, because that costs too much.
func (w *wanted) wait() time.Duration {
	if space := w.subject.space.Load(); space != nil {
		return space.RefreshIn()
	}
	return 0
}

// provide reads a subject's mappings again and tells the tables that are there; those
// that are missing are made.
func (u *unwinding) provide(w wanted) {
	if !u.refresh(w.key, w.subject) {
		return
	}
	if space := w.subject.space.Load(); space != nil {
		u.enqueue(w, space, u.tell(w, space, func() { u.publish(w.key, w.subject) }))
	}
}

// enqueue has the tables of binaries made.
func (u *unwinding) enqueue(w wanted, space *symbol.AddressSpace, missing []symbol.Region) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range missing {
		q := &u.small
		if r.Size >= largeBytes {
			q = &u.large
		}
		places := q.places[r.Content]
		if places == nil {
			places = map[observe.SubjectKey]place{}
			q.places[r.Content] = places
		}
		places[w.key] = place{space, r, w}
		rouse(q.wake)
	}
}

// work makes the next table of a queue, and tells those of whom it has made some from
// time to time. It tells whether there may be more to do.
func (u *unwinding) work(q *queue) bool {
	places := u.take(q)
	if b := u.acquireAny(places); b != nil {
		q.made = append(q.made, b)
		maps.Copy(q.untold, places)
	}
	if places == nil || time.Since(q.toldAt) >= q.pause {
		u.tellAll(q)
	}
	u.done(q)
	return places != nil
}

// take takes the next binary of a queue, nil when there is none.
func (u *unwinding) take(q *queue) (places map[observe.SubjectKey]place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	content, first := "", place{}
	for one, waiting := range q.places {
		for _, p := range waiting {
			if places == nil || before(&p.region, &first.region) {
				content, places, first = one, waiting, p
			}
			break
		}
	}
	delete(q.places, content)
	q.busy = true
	return places
}

// done tells that what was taken is made, and told if nothing follows.
func (u *unwinding) done(q *queue) {
	u.mu.Lock()
	q.busy = len(q.untold) > 0
	u.mu.Unlock()
}

// before orders binaries for making their tables: the C library first, since nearly all stacks of a program that has it begin
// there and none is whole without; then the smallest.
func before(a, b *symbol.Region) bool {
	if libc := isLibc(a.Path()); libc != isLibc(b.Path()) {
		return libc
	}
	return a.Size < b.Size
}

// isLibc tells whether a file is glibc or musl, by its name.
func isLibc(file string) bool {
	name := path.Base(file)
	return strings.HasPrefix(name, "libc.") || strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "ld-musl-")
}

// tellAll tells those who waited of the tables that were made.
func (u *unwinding) tellAll(q *queue) {
	began := time.Now()
	for _, p := range q.untold {
		u.tell(p.want, p.space, func() { u.publish(p.want.key, p.want.subject) })
	}
	clear(q.untold)
	for _, b := range q.made {
		u.store.Release(b)
	}
	q.made = q.made[:0]
	q.toldAt = time.Now()
	q.pause = max(q.toldAt.Sub(began)*tellShare, tellMin)
}

// tell lists the mappings whose tables are there, has publish tell the kernel, and
// returns those that have none yet, one for each binary.
// publish runs without a new list, too, when none can be made.
func (u *unwinding) tell(w wanted, space *symbol.AddressSpace, publish func()) (missing []symbol.Region) {
	u.telling.Lock()
	defer u.telling.Unlock()
	regions := space.Regions()
	list := make([]store.Mapping, 0, len(regions))
	for _, r := range regions {
		if b := u.store.Known(r.Content); b != nil {
			list = append(list, store.Mapping{Start: r.Start, End: r.End, Bias: r.Bias, Binary: b})
		} else if !slices.ContainsFunc(missing, func(m symbol.Region) bool { return m.Content == r.Content }) {
			missing = append(missing, r)
		}
	}
	for _, r := range space.CompiledRegions(maxCompiled) {
		list = append(list, store.Mapping{Start: r.Start, End: r.End, Kind: store.KindCompiled})
	}
	tables, err := u.store.NewSpace(list)
	if err != nil {
		u.fail(fmt.Errorf("listing unwind tables for process %d: %w", w.key.PID, err))
		publish()
		return missing
	}
	u.skipped.Add(uint64(tables.Skipped))
	old, ok := w.subject.install(tables)
	if !ok {
		old = tables // it was closed meanwhile
	}
	publish()
	u.mu.Lock()
	u.retire(old)
	u.mu.Unlock()
	return missing
}

// acquireAny makes the table of one binary. Of the processes that have the file one may be
// gone: the next one is asked then.
func (u *unwinding) acquireAny(places map[observe.SubjectKey]place) *store.Binary {
	for _, p := range places {
		if b := u.acquire(p.space, p.region, p.want.key.PID); b != nil {
			return b
		}
	}
	return nil
}

// acquire makes the table of a region's binary; nil when that went wrong.
func (u *unwinding) acquire(space *symbol.AddressSpace, r symbol.Region, pid uint32) *store.Binary {
	b, err := u.store.Acquire(r.Content, func() (*unwind.Table, error) { return u.build(space, r) })
	if err != nil {
		u.fail(fmt.Errorf("making the unwind table of %s of process %d: %w", r.Path(), pid, err))
		return nil
	}
	if n := b.Unruled(); n > 0 {
		u.warnings.Warn(fmt.Errorf("making the unwind table of %s of process %d: %d of its rules found no room beside those of other tables: "+
			"narrow targets, or leave out programs with uncommon unwind information", r.Path(), pid, n))
	}
	return b
}

// build makes the table of a region's binary, by its separate debug file, too, where it
// says nothing of most of its frames itself; one that cannot have a table, as one that is
// damaged, has none. What may come right later is an error.
func (u *unwinding) build(space *symbol.AddressSpace, r symbol.Region) (_ *unwind.Table, err error) {
	image, closeFile, err := space.OpenRegion(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeFile()) }()
	table, errBuild := unwind.Build(image, unwind.Limits{})
	if errors.Is(errBuild, unwind.ErrNone) || errors.Is(errBuild, unwind.ErrDamaged) || errBuild == nil && table.Sparse() {
		debug, err := space.OpenDebug(r)
		switch {
		case err == nil:
			var more *unwind.Table
			if more, errBuild = unwind.Build(image, unwind.Limits{}, debug.Image); more != nil {
				table = more
			}
			errBuild = errors.Join(errBuild, debug.Close())
		case !errors.Is(err, symbol.ErrNoDebug):
			errBuild = err
		}
	}
	switch {
	case errBuild != nil && !errors.Is(errBuild, unwind.ErrNone):
		u.fail(fmt.Errorf("making the unwind table of %s: %w", r.Path(), errBuild))
	case table != nil && table.Skipped > 0:
		u.incomplete.Add(1)
		u.warnings.Warn(fmt.Errorf("making the unwind table of %s: %d of its parts left out: %w", r.Path(), table.Skipped, table.Err))
	}
	return table, nil
}

// fail counts what could not be made and tells one of them in a while. That a process
// has ended is no failure: nobody needs its tables.
func (u *unwinding) fail(err error) {
	if errors.Is(err, symbol.ErrProcessExited) {
		return
	}
	u.failed.Add(1)
	u.warnings.Warn(err)
}
