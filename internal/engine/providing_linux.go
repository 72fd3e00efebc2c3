// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
)

// place is where a binary can be read.
type place struct {
	space  *symbol.AddressSpace
	region symbol.Region
	want   wanted
}

// run provides tables until the context ends. charge takes the cost of work.
func (u *unwinding) run(ctx context.Context, charge func(func())) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		}
		for ctx.Err() == nil {
			w, later, ok := u.next()
			if !ok && later > 0 {
				time.AfterFunc(later, func() { rouse(u.wake) })
			}
			if !ok {
				break
			}
			charge(func() { u.provide(w) })
			u.done()
		}
	}
}

// runLarge makes the tables of large binaries until the context ends.
func (u *unwinding) runLarge(ctx context.Context, charge func(func())) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wakeLarge:
		}
		for ctx.Err() == nil {
			places := u.nextLarge()
			if places == nil {
				break
			}
			charge(func() { u.buildLarge(places) })
			u.done()
		}
	}
}

// next takes the next subject that is due; later is when one will be, 0 for never.
func (u *unwinding) next() (w wanted, later time.Duration, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, w := range u.due {
		if wait := w.wait(); w.again && wait > 0 {
			if later == 0 || wait < later {
				later = wait
			}
			continue
		}
		delete(u.due, key)
		u.working++
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

// provide makes a subject's list of mappings, with a table for each binary. What
// is known already is told first, then what is made at once; large binaries are
// made beside that.
func (u *unwinding) provide(w wanted) {
	if w.again && !u.refresh(w.key, w.subject) {
		return
	}
	space := w.subject.space.Load()
	if space == nil {
		return
	}
	publish := func() { u.publish(w.key, w.subject) }
	missing := u.tell(w, space, publish)
	var made []*store.Binary
	for _, r := range missing {
		if r.Size >= largeBytes {
			u.waitFor(place{space, r, w})
			continue
		}
		if b := u.acquire(space, r, w.key.PID); b != nil {
			made = append(made, b)
		}
	}
	if len(made) > 0 {
		u.tell(w, space, publish)
	}
	for _, b := range made {
		u.store.Release(b)
	}
	if w.changed {
		u.mapped(w.key.PID)
	}
}

// tell lists the mappings whose tables are there, has publish tell the kernel, and
// returns those that have none yet, one for each binary, the smallest first.
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
	slices.SortFunc(missing, func(a, b symbol.Region) int { return cmp.Compare(a.Size, b.Size) })
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

// waitFor has the table of a large binary made. There is one entry for each
// binary and subject, and subjects are bounded.
func (u *unwinding) waitFor(p place) {
	u.mu.Lock()
	places := u.large[p.region.Content]
	if places == nil {
		places = map[observe.SubjectKey]place{}
		u.large[p.region.Content] = places
	}
	places[p.want.key] = p
	u.mu.Unlock()
	rouse(u.wakeLarge)
}

// nextLarge takes the smallest of the large binaries.
func (u *unwinding) nextLarge() (places map[observe.SubjectKey]place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	content, size := "", uint64(0)
	for one, waiting := range u.large {
		for _, p := range waiting {
			if places == nil || p.region.Size < size {
				content, places, size = one, waiting, p.region.Size
			}
			break
		}
	}
	if places != nil {
		delete(u.large, content)
		u.working++
	}
	return places
}

// done tells that what next or nextLarge has returned is made.
func (u *unwinding) done() {
	u.mu.Lock()
	u.working--
	u.mu.Unlock()
}

// buildLarge makes a table and lets those who wait for it have it. Of the
// processes that have the file one may be gone: the next one is asked then.
func (u *unwinding) buildLarge(places map[observe.SubjectKey]place) {
	var made *store.Binary
	for _, p := range places {
		if made = u.acquire(p.space, p.region, p.want.key.PID); made != nil {
			break
		}
	}
	if made == nil {
		return
	}
	for _, p := range places {
		u.tell(p.want, p.space, func() { u.publish(p.want.key, p.want.subject) })
	}
	u.store.Release(made)
}
