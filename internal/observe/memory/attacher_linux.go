// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

const (
	// lookPause is the least time between two looks at one process: a program that
	// starts maps several files, one after the other.
	lookPause = 5 * time.Millisecond
	// maxAttached bounds the processes that are attached to at once.
	maxAttached = 1024
)

// attacher attaches to the allocators of processes in scope, beside who tells it
// of them.
type attacher struct {
	config   MallocConfig
	probes   *kernel.Uprobes
	coll     *ebpf.Collection
	live     *liveSet
	session  bool
	binaries binaries
	warnings *warn.Rarely

	wake   chan struct{}
	cancel context.CancelFunc
	ended  sync.WaitGroup

	// attached belongs to the goroutine.
	attached map[uint32]*target

	mu     sync.Mutex // all below
	due    map[uint32]struct{}
	all    bool // of those that are attached to, each is due
	paused bool

	// functions counts what is attached, failed the processes and functions that
	// could not be attached to.
	functions atomic.Int64
	failed    atomic.Uint64
}

// target is a process that is attached to.
type target struct {
	id    model.ProcessID
	space *symbol.AddressSpace
	files map[symbol.FileKey]*attachment
}

// attachment is one file in one process.
type attachment struct {
	probes    []*kernel.Uprobe
	functions int
}

func startAttacher(config MallocConfig, probes *kernel.Uprobes, coll *ebpf.Collection, live *liveSet, session bool) *attacher {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attacher{
		config: config, probes: probes, coll: coll, live: live, session: session,
		warnings: warn.NewRarely(config.Logger, "Some allocations are not seen", nil),
		wake:     make(chan struct{}, 1), cancel: cancel,
		attached: map[uint32]*target{}, due: map[uint32]struct{}{},
	}
	a.ended.Go(func() { a.run(ctx) })
	return a
}

// look makes a process due.
func (a *attacher) look(pid uint32) {
	a.mu.Lock()
	a.due[pid] = struct{}{}
	a.mu.Unlock()
	a.rouse()
}

// lookAll makes all processes due that are attached to.
func (a *attacher) lookAll() {
	a.mu.Lock()
	a.all = true
	a.mu.Unlock()
	a.rouse()
}

// pause detaches from all, or attaches to them again.
func (a *attacher) pause(paused bool) {
	a.mu.Lock()
	a.paused, a.all = paused, true
	a.mu.Unlock()
	a.rouse()
}

func (a *attacher) rouse() {
	select {
	case a.wake <- struct{}{}:
	default: // it is awake
	}
}

// run looks at what is due until the context ends, and detaches from all then.
func (a *attacher) run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			for pid := range a.attached {
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

// visitDue looks at what is due and says when to do so again, 0 for when it is told to: of a process whose mappings change all the time
// they are read less often.
func (a *attacher) visitDue(ctx context.Context) (soonest time.Duration) {
	pids, paused := a.take()
	for _, pid := range pids {
		if ctx.Err() != nil {
			break
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

// take returns who is due.
func (a *attacher) take() (pids []uint32, paused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all {
		for pid := range a.attached {
			a.due[pid] = struct{}{}
		}
	}
	pids = make([]uint32, 0, len(a.due))
	for pid := range a.due {
		pids = append(pids, pid)
	}
	clear(a.due)
	a.all = false
	return pids, a.paused
}

// visit makes true what should be of a process; wait is how long that has to be put off, or 0.
func (a *attacher) visit(pid uint32, paused bool) (wait time.Duration) {
	id, inScope := a.config.Decide(pid)
	t := a.attached[pid]
	if t != nil && (!inScope || t.id != id) {
		a.leave(pid)
		t = nil
	}
	if !inScope {
		return 0
	}
	if t == nil {
		if len(a.attached) >= maxAttached {
			a.lose(fmt.Errorf("process %d: %d are attached to, which is the most: narrow observe::memory::targets", pid, maxAttached))
			return 0
		}
		if err := a.live.met(id); err != nil {
			a.lose(fmt.Errorf("process %d: what it had in use when it was out of scope: %w", pid, err))
		}
		t = &target{id: id, files: map[symbol.FileKey]*attachment{}}
		a.attached[pid] = t
	}
	if t.space != nil && !paused {
		if wait := t.space.RefreshIn(); wait > 0 {
			return wait
		}
	}
	if err := a.update(t, paused); err != nil {
		a.leave(pid)
		if !errors.Is(err, symbol.ErrProcessExited) {
			a.lose(fmt.Errorf("reading what process %d has mapped: %w", pid, err))
		}
	}
	return 0
}

// update reads the mappings of a process and attaches to the allocators among
// them; what the process has mapped no longer is detached from.
func (a *attacher) update(t *target, paused bool) error {
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
	if !paused {
		regions := t.space.Regions()
		for i := range regions {
			key := regions[i].File()
			if mapped[key] {
				continue // a file with two pieces of code
			}
			mapped[key] = true
			if t.files[key] == nil {
				t.files[key] = a.attach(t, regions[i])
			}
		}
	}
	for key, old := range t.files {
		if !mapped[key] {
			a.detach(old)
			delete(t.files, key)
		}
	}
	return nil
}

// leave detaches from a process.
func (a *attacher) leave(pid uint32) {
	t := a.attached[pid]
	for _, old := range t.files {
		a.detach(old)
	}
	if t.space != nil {
		t.space.Close()
	}
	a.live.left(t.id)
	delete(a.attached, pid)
}

func (a *attacher) detach(old *attachment) {
	for _, probe := range old.probes {
		if err := probe.Close(); err != nil {
			a.config.Logger.Debug("Detaching from an allocator", zap.Error(err))
		}
	}
	a.functions.Add(-int64(old.functions))
}

// close detaches from all.
func (a *attacher) close() error {
	a.cancel()
	a.ended.Wait()
	a.warnings.Close()
	return nil
}
