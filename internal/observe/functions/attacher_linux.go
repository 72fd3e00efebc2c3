// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package functions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

const (
	// lookPause is the least time between two visits of one process: a program that
	// starts maps several files, one after the other.
	lookPause = 5 * time.Millisecond
	// detachers is how many probes are detached at once.
	detachers = 8
)

// Config selects the processes and functions that are attached to. F is what is found of a binary.
type Config[F any] struct {
	// What is the name of the functions in messages, such as "the allocator"; Unseen
	// what is missing where they are not attached to, as a sentence.
	What, Unseen string
	// Targets is the configuration's key that narrows the processes.
	Targets string
	// Find looks for the functions of a binary. What it finds is remembered, also with an
	// error, which is logged once.
	Find func(elfimage.Image) (F, error)
	// Wants reports whether Attach would attach to anything of what was found.
	Wants func(found F) bool
	// Found, unless it is nil, is called with what was found of the files that a process has mapped, by address, each time that it is visited.
	// It must not keep the list.
	Found func(pid uint32, found []F)
	// Attach attaches to what was found of a file in a process. Path leads to the file
	// until it returns.
	Attach func(to *Attachment, found F, path string, pid uint32) error
	// Decide returns the process that has a pid now, and whether it is in scope.
	Decide func(pid uint32) (id model.ProcessID, inScope bool)
	// Met, unless it is nil, is called with a process before it is visited first.
	Met func(id model.ProcessID) error
	// Left, unless it is nil, is called with a process that is no longer visited.
	Left func(id model.ProcessID)
	// Open reads the mappings of a process.
	Open func(id model.ProcessID) (*symbol.AddressSpace, error)
	// Charge runs work done for the observation and notes its cost.
	Charge func(work func())
	Logger *zap.Logger
}

// Attacher attaches to the functions of processes in scope, in a goroutine of its own. Its methods may be called from any goroutine.
type Attacher[F any] struct {
	config   Config[F]
	binaries binaries[F]
	warnings *warn.Rarely

	wake   chan struct{}
	cancel context.CancelFunc
	ended  sync.WaitGroup

	// leaving are probes that are detached in the background: the kernel waits for each until no CPU
	// runs it.
	leaving   chan attached
	detachers sync.WaitGroup

	limits limits
	// known are the processes that are looked into, held how many of them are attached to. They
	// belong to the goroutine, as do the processes that are visited again when there is capacity:
	// refused to be attached to, crowded to be looked into.
	known            map[uint32]*target[F]
	held             int
	refused, crowded map[uint32]struct{}
	found            []F // of the process that is looked into: here it is not allocated each time

	mu  sync.Mutex // all below
	due map[uint32]struct{}
	// executed are the due processes that do not wait for their user's part of the CPU time, since they run another program.
	executed map[uint32]struct{}
	all      bool // of those that are looked into, each is due
	paused   bool

	// functions counts what is attached, failed the processes and functions that
	// could not be attached to.
	functions atomic.Int64
	failed    atomic.Uint64
}

// target is a process that is looked into.
type target[F any] struct {
	id    model.ProcessID
	space *symbol.AddressSpace
	files map[symbol.FileKey]file[F]
	// holds says that it is attached to, refused that it would be if there were room.
	holds, refused bool
}

// file is one that a process has mapped; to is nil where there was no room to attach.
type file[F any] struct {
	found F
	to    *Attachment
}

// Attachment is one file in one process.
type Attachment struct{ probes []attached }

// attached is a probe, and how many functions it was attached to that no other was.
type attached struct {
	probe     *kernel.Uprobe
	functions int
}

// Add notes a probe that is detached with the others, and how many functions it was attached to that no other was.
func (a *Attachment) Add(probe *kernel.Uprobe, functions int) {
	a.probes = append(a.probes, attached{probe, functions})
}

// Start attaches to processes as [Attacher.Look] makes them due, until Close.
func Start[F any](config Config[F]) *Attacher[F] { return start(config, most) }

func start[F any](config Config[F], limits limits) *Attacher[F] {
	ctx, cancel := context.WithCancel(context.Background())
	a := &Attacher[F]{
		config: config, warnings: warn.NewRarely(config.Logger, config.Unseen, nil),
		wake: make(chan struct{}, 1), cancel: cancel,
		limits: limits, known: map[uint32]*target[F]{}, refused: map[uint32]struct{}{}, crowded: map[uint32]struct{}{},
		due: map[uint32]struct{}{}, executed: map[uint32]struct{}{}, leaving: make(chan attached, limits.attached),
	}
	for range detachers {
		a.detachers.Go(a.detachLeaving)
	}
	a.ended.Go(func() { a.run(ctx) })
	return a
}

// Functions is the number of functions that are attached to, over all processes.
func (a *Attacher[F]) Functions() int { return int(a.functions.Load()) }

// Failed is how many processes and functions could not be attached to, since the start.
func (a *Attacher[F]) Failed() uint64 { return a.failed.Load() }

// Look makes a process due.
func (a *Attacher[F]) Look(pid uint32) {
	a.mu.Lock()
	a.due[pid] = struct{}{}
	a.mu.Unlock()
	a.rouse()
}

// Executed makes a process due that has executed another program, or has exited. Its mappings are read, like those of a new process, even if
// its user's part of the CPU time for reading them is used up.
func (a *Attacher[F]) Executed(pid uint32) {
	a.setExecuted(pid, true)
	a.Look(pid)
}

// LookAll makes all processes due that are looked into.
func (a *Attacher[F]) LookAll() {
	a.mu.Lock()
	a.all = true
	a.mu.Unlock()
	a.rouse()
}

// Pause detaches from all, or attaches to them again.
func (a *Attacher[F]) Pause(paused bool) {
	a.mu.Lock()
	a.paused, a.all = paused, true
	a.mu.Unlock()
	a.rouse()
}

func (a *Attacher[F]) rouse() {
	select {
	case a.wake <- struct{}{}:
	default: // it is awake
	}
}

// run looks at what is due until the context ends, and detaches from all then.
func (a *Attacher[F]) run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			for pid := range a.known {
				a.leave(pid)
			}
			return
		case <-a.wake:
		case <-again:
		}
		again = nil
		if soonest := a.visitDue(ctx); soonest > 0 {
			again = time.After(soonest)
		}
		pause(ctx, lookPause)
	}
}

// visitDue visits what is due and returns after what time to do so again, 0 for never: the mappings of a process that
// change all the time are read less often.
func (a *Attacher[F]) visitDue(ctx context.Context) (soonest time.Duration) {
	named, others, paused := a.take()
	for i, pid := range slices.Concat(named, others) {
		if ctx.Err() != nil {
			break
		}
		if i >= len(named) && a.known[pid] == nil {
			continue // it was evicted by one that is named
		}
		var wait time.Duration
		a.config.Charge(func() { wait = a.visit(pid, paused) })
		if wait == 0 {
			continue
		}
		a.mu.Lock()
		a.due[pid] = struct{}{}
		a.mu.Unlock()
		if soonest == 0 || wait < soonest {
			soonest = wait
		}
	}
	if a.offer() && (soonest == 0 || lookPause < soonest) {
		soonest = lookPause
	}
	return soonest
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// take returns the processes that are due: named, and those that are visited because all are.
func (a *Attacher[F]) take() (named, others []uint32, paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	named = make([]uint32, 0, len(a.due))
	for pid := range a.due {
		named = append(named, pid)
	}
	if a.all {
		for pid := range a.known {
			if _, is := a.due[pid]; !is {
				others = append(others, pid)
			}
		}
	}
	clear(a.due)
	a.all = false
	return named, others, a.paused
}

func (a *Attacher[F]) setExecuted(pid uint32, executed bool) {
	if !executed {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.executed[pid] = struct{}{}
}

// takeExecuted reports whether a process has executed another program since it was asked last.
func (a *Attacher[F]) takeExecuted(pid uint32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, executed := a.executed[pid]
	delete(a.executed, pid)
	return executed
}

// visit attaches to a process or detaches from it, as it should be; wait is how long that has to be put off, or 0.
func (a *Attacher[F]) visit(pid uint32, paused bool) (wait time.Duration) {
	executed := a.takeExecuted(pid)
	id, inScope := a.config.Decide(pid)
	t := a.known[pid]
	if t != nil && (!inScope || t.id != id) {
		a.leave(pid)
		t = nil
	}
	if !inScope {
		delete(a.refused, pid)
		delete(a.crowded, pid)
		return 0
	}
	if t == nil {
		t = a.meet(id)
	}
	if t.space != nil && !paused {
		if executed {
			wait = t.space.ExecIn()
		} else {
			wait = t.space.RefreshIn()
		}
		if wait > 0 {
			a.setExecuted(pid, executed)
			return wait
		}
	}
	if err := a.update(t, paused); err != nil {
		a.leave(pid)
		if !errors.Is(err, symbol.ErrProcessExited) {
			a.lose(fmt.Errorf("reading what process %d has mapped: %w", pid, err))
		}
		return 0
	}
	if t.space.Incomplete() {
		return max(t.space.RefreshIn(), lookPause)
	}
	return 0
}

// update reads the mappings of a process and attaches to the functions in them; what the process has mapped no longer is detached from.
func (a *Attacher[F]) update(t *target[F], paused bool) error {
	var err error
	if t.space == nil {
		t.space, err = a.config.Open(t.id)
	} else {
		err = t.space.Refresh()
	}
	if err != nil {
		return err
	}
	mapped := map[symbol.FileKey]bool{}
	a.found = a.found[:0]
	if !paused {
		regions := t.space.Regions()
		for i := range regions {
			key := regions[i].File()
			if mapped[key] {
				continue // a file with two pieces of code
			}
			mapped[key] = true
			if t.files[key].to == nil {
				t.files[key] = a.attach(t, regions[i])
				a.hold(t)
			}
			a.found = append(a.found, t.files[key].found)
		}
	}
	if a.config.Found != nil && !paused {
		a.config.Found(t.id.PID, a.found)
	}
	for key, old := range t.files {
		if !mapped[key] {
			a.detach(old.to)
			delete(t.files, key)
		}
	}
	a.hold(t)
	return nil
}

// leave detaches from a process and looks into it no more.
func (a *Attacher[F]) leave(pid uint32) {
	t := a.known[pid]
	for _, old := range t.files {
		a.detach(old.to)
	}
	clear(t.files)
	a.hold(t)
	if t.space != nil {
		t.space.Close()
	}
	if a.config.Left != nil {
		a.config.Left(t.id)
	}
	delete(a.known, pid)
}

func (a *Attacher[F]) detach(old *Attachment) {
	if old == nil {
		return
	}
	for _, probe := range old.probes {
		a.leaving <- probe
	}
}

// detachLeaving detaches until nothing more leaves.
func (a *Attacher[F]) detachLeaving() {
	for old := range a.leaving {
		if err := old.probe.Close(); err != nil {
			a.config.Logger.Debug("Detaching from "+a.config.What, zap.Error(err))
		}
		a.functions.Add(-int64(old.functions))
	}
}

// Close detaches from all.
func (a *Attacher[F]) Close() {
	a.cancel()
	a.ended.Wait()
	close(a.leaving)
	a.detachers.Wait()
	a.warnings.Close()
}
