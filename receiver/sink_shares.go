// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// chunkShare is the part of a sink's memory that one delivery takes at most: what is being delivered cannot be dropped.
const chunkShare = 8

// part is what a delivery holds of one process.
type part struct {
	process        *model.Process // nil: the host
	bytes, records uint64
	// drop forgets the records and gives their memory back.
	drop func()
}

// id is the process, or the zero value for the host.
func (p *part) id() model.ProcessID {
	if p.process == nil {
		return model.ProcessID{}
	}
	return p.process.ID
}

// chunks calls put with as many consecutive items as have about most bytes together.
func chunks[T any](items []T, bytes func(T) uint64, most uint64, put func([]T)) {
	first, held := 0, uint64(0)
	for i, item := range items {
		n := bytes(item)
		if i > first && held+n > most {
			put(items[first:i])
			first, held = i, 0
		}
		held += n
	}
	if first < len(items) {
		put(items[first:])
	}
}

// trimBytes drops records of the process that has most of what waits, its oldest first, until the rest is within the bound. So one
// process with many records does not evict those of others. Deliveries without parts are dropped as a whole.
func (q *deliveries) trimBytes() {
	if q.held.Load() <= q.maxBytes {
		return
	}
	shares := q.shares()
	for q.held.Load() > q.maxBytes {
		of := largest(shares)
		switch {
		case shares.parts > 1:
			q.dropPart(shares.of[of])
			shares.parts--
		case shares.parts == 0 && len(q.waiting) > 1:
			q.dropOldest()
		default:
			return
		}
	}
}

// shares is what waits of all processes, as far as it can be dropped alone.
type shares struct {
	of    map[model.ProcessID]*share
	parts int // of all that are left
}

// share is what waits of one process.
type share struct {
	bytes uint64
	parts []partOf // those that are left, the oldest first
}

// partOf is a part and its delivery.
type partOf struct {
	delivery *delivery
	part     *part
}

func (q *deliveries) shares() shares {
	s := shares{of: map[model.ProcessID]*share{}}
	for _, d := range q.waiting {
		for i := range d.droppable() {
			p := &d.parts[i]
			if p.bytes == 0 {
				continue
			}
			of := s.of[p.id()]
			if of == nil {
				of = &share{}
				s.of[p.id()] = of
			}
			of.bytes += p.bytes
			of.parts = append(of.parts, partOf{d, p})
			s.parts++
		}
	}
	return s
}

// droppable are the parts that can be dropped alone: none of a delivery of which a message was taken, since the others would differ.
func (d *delivery) droppable() []part {
	if d.done > 0 {
		return nil
	}
	return d.parts
}

func largest(s shares) (of model.ProcessID) {
	most := uint64(0)
	for id, share := range s.of {
		if share.bytes > most || share.bytes == most && id.PID < of.PID {
			of, most = id, share.bytes
		}
	}
	return of
}

// dropPart drops the oldest part of a process.
func (q *deliveries) dropPart(of *share) {
	d, p := of.parts[0].delivery, of.parts[0].part
	of.parts = of.parts[1:]
	q.note(p)
	p.drop()
	of.bytes -= p.bytes
	d.bytes -= p.bytes
	q.held.Add(-p.bytes)
	p.bytes = 0
	if d.empty() {
		n := slices.Index(q.waiting, d)
		q.waiting = slices.Delete(q.waiting, n, n+1)
		q.done(d)
		q.dropped.Add(1)
	}
}

// empty reports whether all parts were dropped.
func (d *delivery) empty() bool {
	for i := range d.parts {
		if d.parts[i].bytes > 0 {
			return false
		}
	}
	return true
}

// dropOldest drops the oldest delivery as a whole.
func (q *deliveries) dropOldest() {
	d := q.take()
	for i := range d.parts {
		if p := &d.parts[i]; p.bytes > 0 {
			q.note(p)
			p.drop()
		}
	}
	q.done(d)
	q.dropped.Add(1)
}

// note counts the records of a part that is dropped.
func (q *deliveries) note(p *part) {
	q.records.Add(p.records)
	q.unlogged.add(p)
}

// unlogged is what was dropped since it was logged last.
type unlogged struct {
	records uint64
	of      map[model.ProcessID]*droppedOf
}

type droppedOf struct {
	process *model.Process
	records uint64
}

// maxDroppedOf bounds the processes that are counted apart for a log line.
const maxDroppedOf = 1024

func (u *unlogged) add(p *part) {
	if u.of == nil {
		u.of = map[model.ProcessID]*droppedOf{}
	}
	u.records += p.records
	of := u.of[p.id()]
	if of == nil {
		if len(u.of) == maxDroppedOf {
			return
		}
		of = &droppedOf{process: p.process}
		u.of[p.id()] = of
	}
	of.records += p.records
}

// most is the process that lost most records.
func (u *unlogged) most() (most droppedOf) {
	for _, of := range u.of {
		if of.records > most.records {
			most = *of
		}
	}
	return most
}

// warnPause is the least time between two log lines about dropped records.
const warnPause = time.Minute

// takeUnlogged returns what was dropped since the last call that returned something; nothing where that was less than warnPause ago. Several
// goroutines drop records: reports, and tasks that begin and end.
func (q *deliveries) takeUnlogged(now time.Time) (unlogged, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unlogged.records == 0 || !q.warned.IsZero() && now.Sub(q.warned) < warnPause {
		return unlogged{}, false
	}
	u := q.unlogged
	q.warned, q.unlogged = now, unlogged{}
	return u, true
}

// warnDropped logs rarely that records were dropped, and of which process most.
func (s *sink) warnDropped(now time.Time) {
	u, due := s.queue.takeUnlogged(now)
	if !due {
		return
	}
	most := u.most()
	fields := []zap.Field{zap.String("signal", s.signal), zap.Uint64("records", u.records), zap.Uint64("records_of_process", most.records)}
	if most.process != nil {
		fields = append(fields, zap.Uint32("pid", most.process.ID.PID), zap.String("executable", most.process.Executable))
	}
	s.logger.Warn("Records were dropped because the next consumer takes them more slowly than they arrive; the process named lost most. "+
		"Raise limits::memory_mib, give the exporter a queue, or narrow network::requests", fields...)
}
