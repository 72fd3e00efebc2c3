// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// nameJob is the work of a lane on one binary.
type nameJob struct {
	s      *Symbolizer
	lane   *lane
	ctx    context.Context
	bin    *binary
	asker  nameAsker
	wanted []wantedName
	file   source
	image  elfimage.Image

	// The tables as they were when the job began, and their new state.
	golang         goTables
	symbols        symTables
	errGo, errSyms error
	passed         bool  // over the file, for a partial table
	errSome        error // why a partial table lacks some of the addresses

	reserved int64 // bytes for the tables, until they are installed or dropped; guarded by the mutex of the Symbolizer
}

// pace does a step of the work, and waits as long as the budget requires. It returns errStopped when the symbolizer is being closed.
func (j *nameJob) pace(step func()) error {
	if j.ctx.Err() != nil {
		return errStopped
	}
	var used time.Duration
	pause := j.lane.charge(func() { used = budget.CPUTimeOf(step) })
	j.s.mu.Lock()
	j.lane.n.spent.Add(j.asker.user, used)
	j.s.mu.Unlock()
	rest(j.ctx, pause)
	return nil
}

// run reads the missing tables and names the frames.
func (j *nameJob) run() {
	move, err := j.prepare()
	s, n := j.s, j.lane.n
	s.mu.Lock()
	if move && err == nil {
		defer s.mu.Unlock()
		j.move()
		return
	}
	s.mu.Unlock()
	if err == nil {
		_ = j.pace(j.settle) // stopped: the frames still wait, and are given up
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j.release()
	for _, w := range j.wanted {
		n.giveUp(w)
	}
	j.lane.closeFile(j.bin, j.file)
	if s.held() > s.memory {
		s.makeRoom(0, nil)
	}
	s.settledNow()
}

// settle gives the binary its tables and names the frames, some hundred at most. It does both under one hold of the lock: tables that exceed
// the memory may be evicted as soon as others have it.
func (j *nameJob) settle() {
	j.warm()
	s := j.s
	s.mu.Lock()
	defer s.mu.Unlock()
	j.release() // what is installed counts as a table
	if _, known := s.all[j.bin]; known {
		j.install()
	}
	j.bin.names.reading = j.file
	for _, w := range j.wanted {
		s.settleName(j.bin, w)
	}
	j.bin.names.reading, j.wanted = nil, nil
	s.settledNow()
}

// warm reads a byte of each name, so that none must be read from a disk while the lock is held.
func (j *nameJob) warm() {
	if t := j.golang.table; t != nil {
		j.warmGo(t)
	}
	t := j.symbols.table
	if t == nil {
		return
	}
	var one [1]byte
	for _, w := range j.wanted {
		if sym, _ := t.LookupReturn(w.addr); sym != nil {
			off, _ := t.NameAt(sym.Name)
			j.image.Read(one[:], off) //nolint:errcheck // reading the name returns the error
		}
	}
}

// move moves the job to the lane of large tables. Frames of the binary that were requested meanwhile wait in this lane's queue: they move
// with the job, so that only one lane ever works on a binary.
func (j *nameJob) move() {
	k, n := &j.bin.names, j.lane.n
	if k.queued {
		j.lane.queue = slices.DeleteFunc(j.lane.queue, func(b *binary) bool { return b == j.bin })
		wanted, file := k.take()
		j.wanted = append(j.wanted, wanted...)
		j.lane.closeFile(j.bin, file)
	}
	k.large = true
	if !n.laneOf(j.bin).admit(j.asker) {
		for _, w := range j.wanted {
			n.giveUp(w)
		}
		j.lane.closeFile(j.bin, j.file)
		j.s.settledNow()
		return
	}
	k.wanted = j.wanted
	j.lane.files--
	n.put(j.bin, j.file)
}

// prepare reads the missing tables; move is set when that is for the other lane.
func (j *nameJob) prepare() (move bool, err error) {
	missing := j.missing()
	if j.golang.loaded && j.symbols.loaded && len(missing) == 0 {
		return false, nil
	}
	var f *elfimage.File
	var sections []elfimage.Section
	var sources []elfsym.Source
	var errRead error
	err = j.pace(func() {
		if f, sections, errRead = elfsym.Layout(j.image); errRead == nil {
			sources, errRead = elfsym.Sources(f, sections)
		}
	})
	switch {
	case err != nil:
		return false, err
	case errRead != nil:
		j.golang.loaded, j.symbols.loaded, j.errSyms = true, true, errRead
		return false, nil
	case !j.lane.large && elfsym.IsLarge(f, sections, sources):
		return true, nil
	}
	if err := j.prepareGo(f, sections); err != nil {
		return false, err
	}
	if t := j.golang.table; t != nil && !slices.ContainsFunc(j.wanted, func(w wantedName) bool { return !t.Covers(w.addr) }) {
		return false, nil
	}
	return false, j.prepareSymbols(f, sections, sources, missing)
}

func (j *nameJob) prepareGo(f *elfimage.File, sections []elfimage.Section) error {
	if j.golang.loaded {
		return nil
	}
	j.golang.loaded = true
	return j.pace(func() {
		j.golang.table, j.errGo = elfsym.BuildGo(f, sections, j.lane.buf, j.reserve)
		if t := j.golang.table; t != nil {
			t.ResolveInline(f, sections, j.lane.buf) //nolint:errcheck // InlinedCall returns the error again
			j.golang.inline = true
		}
	})
}

// prepareSymbols makes the symbol table, complete if it fits into memory, else of the missing addresses.
func (j *nameJob) prepareSymbols(f *elfimage.File, sections []elfimage.Section, sources []elfsym.Source, missing []uint64) error {
	b := func() *elfsym.Builder {
		j.lane.pages.Forget(j.bin.serial)
		return &elfsym.Builder{
			File: f, Text: f.Executable(sections), Buf: j.lane.buf, Pace: j.pace, Reserve: j.reserve,
			Names: elfsym.Reader{Cache: j.lane.pages, Owner: j.bin.serial, Image: j.image},
		}
	}
	var err error
	if !j.symbols.loaded {
		j.symbols.loaded = true
		j.symbols.table, err = b().Build(sources)
	}
	if partial := j.symbols.table != nil && j.symbols.table.IsPartial; errors.Is(err, elfsym.ErrNoRoom) || err == nil && partial {
		if len(missing) == 0 {
			missing = j.addresses()
		}
		j.passed = true
		pass := func(addrs []uint64) (*elfsym.Table, error) { return b().Partial(sources, addrs) }
		j.symbols.table, j.errSome, err = elfsym.Halve(pass, missing)
	}
	if errors.Is(err, errStopped) {
		return err
	}
	j.errSyms = err
	return nil
}

// addresses are the wanted ones.
func (j *nameJob) addresses() []uint64 {
	list := make([]uint64, len(j.wanted))
	for i, w := range j.wanted {
		list[i] = w.addr
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// missing are the wanted addresses that a partial table does not have.
func (j *nameJob) missing() []uint64 {
	t := j.symbols.table
	if t == nil || !t.IsPartial {
		return nil
	}
	return slices.DeleteFunc(j.addresses(), func(addr uint64) bool {
		_, known := t.LookupReturn(addr)
		return known
	})
}

// reserve reserves memory for a table and counts it at once, since the other lane builds tables concurrently.
func (j *nameJob) reserve(entries int, each int64) error {
	need := int64(entries) * each
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	if err := j.s.roomFor(j.bin, need); err != nil {
		return err
	}
	j.reserved += need
	j.s.reserved += need
	return nil
}

// release ends the reservation of a job. The symbolizer is locked.
func (j *nameJob) release() {
	j.s.reserved -= j.reserved
	j.reserved = 0
}

// install gives the binary its tables. The symbolizer is locked.
func (j *nameJob) install() {
	s, b := j.s, j.bin
	if !b.golang.loaded {
		b.golang.loaded = true
		if j.errGo != nil {
			s.noGoTable(b, j.errGo)
		}
		s.keep(b, func() { b.golang.table, b.golang.inline = j.golang.table, j.golang.inline })
	}
	switch {
	case j.errSyms != nil && j.passed:
		j.passFailed()
	case j.errSyms != nil:
		b.symbols.loaded = true
		s.badSymbols(b, j.errSyms)
	case j.passed:
		s.keepPartial(b, j.symbols.table)
		if j.errSome != nil {
			s.someFailed(b, j.errSome)
		}
	case !b.symbols.loaded && j.symbols.loaded:
		b.symbols.loaded = true
		s.keep(b, func() { b.symbols.table = j.symbols.table })
	}
}

// passFailed records that no address of a batch was found.
func (j *nameJob) passFailed() {
	s, b := j.s, j.bin
	b.symbols.loaded = true
	if b.failedPasses++; b.failedPasses >= maxFailedPasses {
		s.keep(b, func() { b.symbols.table = nil }) // without a table, no address needs a pass
		s.badSymbols(b, j.errSyms)
		return
	}
	s.someFailed(b, j.errSyms) // other addresses may be found
	if b.symbols.table == nil {
		b.symbols.table = &elfsym.Table{IsPartial: true}
	}
}
