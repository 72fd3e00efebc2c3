// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"container/heap"
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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind/store"
)

const (
	// largeBytes is the size of files whose tables delay no other. A table
	// takes some 4 ms per MiB of the file at most.
	largeBytes = 4 << 20
	// sendMin is how long tables that are made wait at most for others, so that one
	// list has several; sendShare bounds what part of the time goes into lists.
	sendMin, sendShare = 5 * time.Millisecond, 5
)

// queue is the binaries that lack tables, and the subjects that wait for them. One goroutine works at it.
type queue struct {
	wake chan struct{}

	// Guarded by the lock of unwinding. places are by content: there is one for each
	// binary and subject, and subjects are bounded.
	places map[string]map[observe.SubjectKey]place
	order  order // of what is in places
	busy   bool  // with what is in places no more

	building *building

	// Of the goroutine: tables that are made and not sent yet, and the subjects that wait for them.
	made   []*store.Binary
	unsent map[observe.SubjectKey]place
	sentAt time.Time
	pause  time.Duration // until tables are sent again
}

// place is where a binary can be read.
type place struct {
	space  *symbol.AddressSpace
	region symbol.Region
	want   wanted
}

func newQueue(memory uint64) queue {
	return queue{
		building: &building{limit: int64(memory)}, //nolint:gosec // a part of memory
		wake:     make(chan struct{}, 1), places: map[string]map[observe.SubjectKey]place{}, unsent: map[observe.SubjectKey]place{},
	}
}

// idle reports whether all tables are made and sent. The caller holds the lock.
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

// runLarge makes the tables of large binaries until the context ends. The charge returns how long the next one has to wait: any
// process that may map files can make any number of them.
func (u *unwinding) runLarge(ctx context.Context, charge func(func()) time.Duration) {
	for u.large.wait(ctx) {
		for more := true; more && ctx.Err() == nil; {
			pause := charge(func() { more = u.work(&u.large) })
			if pause <= 0 {
				continue
			}
			charge(func() { u.sendAllTables(&u.large) }) // the waiting subjects get what was made
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
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

// provide reads a subject's mappings again and sends the tables that exist; those
// that are missing are made.
func (u *unwinding) provide(w wanted) {
	if !u.refresh(w.key, w.subject) {
		return
	}
	space := w.subject.space.Load()
	if space == nil {
		return
	}
	missing := u.sendTables(w, space, func() { u.publish(w.key, w.subject) })
	u.enqueue(w, space, missing, space.TablesOver())
	if space.Incomplete() {
		u.again(w)
	}
}

// again has the mappings of a subject read once more, when its user may spend something again.
func (u *unwinding) again(w wanted) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running[w.key.PID].subject == w.subject {
		u.due[w.key] = w
	}
}

// enqueue has the tables of binaries made. Those of a user that is over its part of the CPU time for small ones wait with the large ones,
// whose queue is paced, and behind them.
func (u *unwinding) enqueue(w wanted, space *symbol.AddressSpace, missing []symbol.Region, over bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range missing {
		q := &u.small
		if over || r.Size >= largeBytes {
			q = &u.large
		}
		places := q.places[r.Content]
		if places == nil {
			places = map[observe.SubjectKey]place{}
			q.add(&r, places, over && r.Size < largeBytes)
		}
		places[w.key] = place{space, r, w}
		rouse(q.wake)
	}
}

// add adds a binary that is not in the queue. late is set where it is small and its user over its part. The caller holds the lock.
func (q *queue) add(r *symbol.Region, places map[observe.SubjectKey]place, late bool) {
	q.places[r.Content] = places
	heap.Push(&q.order, queuedBinary{content: r.Content, late: late, libc: isLibc(r.Path()), size: r.Size})
}

// work makes the next table of a queue, and from time to time sends the tables that it has
// made. It reports whether there may be more to do.
func (u *unwinding) work(q *queue) bool {
	places := u.take(q)
	if made := u.acquireAny(q, places); len(made) > 0 {
		q.made = append(q.made, made...)
		maps.Copy(q.unsent, places)
	}
	if places == nil || time.Since(q.sentAt) >= q.pause {
		u.sendAllTables(q)
	}
	u.done(q)
	return places != nil
}

// take takes the next binary of a queue, nil when there is none.
func (u *unwinding) take(q *queue) (places map[observe.SubjectKey]place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(q.order) > 0 {
		content := heap.Pop(&q.order).(queuedBinary).content //nolint:errcheck // it holds nothing else
		places = q.places[content]
		delete(q.places, content)
	}
	q.busy = true
	return places
}

// done marks what was taken as made, and as sent if nothing follows.
func (u *unwinding) done(q *queue) {
	u.mu.Lock()
	q.busy = len(q.unsent) > 0
	u.mu.Unlock()
}

// order is a heap of the binaries of a queue. It avoids a scan: any process that may map files can make any number of them.
type order []queuedBinary

// queuedBinary is a binary, and what decides when its table is made.
type queuedBinary struct {
	content    string
	late, libc bool
	size       uint64
}

// Less implements heap.Interface: those of users with something left of their part of the CPU time come first. Of these the C library does,
// since nearly all stacks of a program that has it begin there and none is whole without; then the smallest.
func (o order) Less(i, j int) bool {
	a, b := &o[i], &o[j]
	if a.late != b.late {
		return b.late
	}
	if a.libc != b.libc {
		return a.libc
	}
	return a.size < b.size
}

// Len implements heap.Interface.
func (o order) Len() int { return len(o) }

// Swap implements heap.Interface.
func (o order) Swap(i, j int) { o[i], o[j] = o[j], o[i] }

// Push implements heap.Interface.
func (o *order) Push(x any) { *o = append(*o, x.(queuedBinary)) } //nolint:errcheck // see take

// Pop implements heap.Interface.
func (o *order) Pop() any {
	last := len(*o) - 1
	t := (*o)[last]
	(*o)[last] = queuedBinary{}
	*o = (*o)[:last]
	return t
}

// isLibc reports whether a file is glibc or musl, by its name.
func isLibc(file string) bool {
	name := path.Base(file)
	return strings.HasPrefix(name, "libc.") || strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "ld-musl-")
}

// sendAllTables sends the tables that were made to the subjects that waited for them.
func (u *unwinding) sendAllTables(q *queue) {
	began := time.Now()
	for _, p := range q.unsent {
		u.sendTables(p.want, p.space, func() { u.publish(p.want.key, p.want.subject) })
	}
	clear(q.unsent)
	for _, b := range q.made {
		u.store.Release(b)
	}
	q.made = q.made[:0]
	q.sentAt = time.Now()
	q.pause = max(q.sentAt.Sub(began)*sendShare, sendMin)
}

// sendTables lists the mappings whose tables exist, has publish send the list to the kernel, and
// returns the mappings that have none yet, one for each binary.
// publish runs without a new list, too, when none can be made.
func (u *unwinding) sendTables(w wanted, space *symbol.AddressSpace, publish func()) (missing []symbol.Region) {
	u.sending.Lock()
	defer u.sending.Unlock()
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
		old = tables // it was closed in between
	}
	publish()
	u.mu.Lock()
	u.retire(old)
	u.mu.Unlock()
	return missing
}

// fail counts what could not be made and logs one of them in a while. That a process
// has exited is no failure: its tables are not needed.
func (u *unwinding) fail(err error) {
	if errors.Is(err, symbol.ErrProcessExited) {
		return
	}
	u.failed.Add(1)
	u.warnings.Warn(err)
}
