// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind/store"
)

const (
	// refreshPause is the least time between two looks at one program's mappings.
	refreshPause = 50 * time.Millisecond
	// retireAfter is how long a list outlives its use: until the kernel was told of
	// the next one, and with time to spare.
	retireAfter = 2 * time.Second
	// maxCompiled bounds the pieces of compiled code in a list, which shall not
	// take the place of binaries; those beyond are unwound the same way.
	maxCompiled = 256
)

// unwinding gives the programs in scope unwind tables. It works beside those who
// ask for it: a stack that is taken before its tables are there is unwound by
// frame pointers.
type unwinding struct {
	store  *store.Kernel
	logger *zap.Logger
	// refresh reads a subject's mappings again; false when it runs no more.
	refresh func(observe.SubjectKey, *subject) bool
	// publish tells the kernel where the tables of a subject are, if it runs still.
	publish func(observe.SubjectKey, *subject)

	wake chan struct{}

	mu      sync.Mutex // all below
	due     map[observe.SubjectKey]wanted
	running map[uint32]wanted // by pid: whose mappings are followed
	retired []retired

	// failed counts tables and lists that could not be made, skipped the mappings
	// that a list had no room for.
	failed, skipped atomic.Uint64
}

// wanted is a subject whose tables are to be looked up.
type wanted struct {
	key     observe.SubjectKey
	subject *subject
	// again says that its mappings have changed.
	again bool
	since time.Time // of the last look
}

type retired struct {
	tables *store.Space
	at     time.Time
}

// startUnwinding makes the maps of unwind tables and follows who maps code.
func (e *Engine) startUnwinding() error {
	var err error
	if e.unwinding, err = newUnwinding(e.config.MemoryBytes/unwindShare, e.logger); err != nil {
		return fmt.Errorf("preparing unwind tables: %w", err)
	}
	e.unwinding.refresh, e.unwinding.publish = e.subjects.refresh, e.subjects.publish
	e.subjects.unwinding = e.unwinding
	online, err := kernel.OnlineCPUs(e.sysRoot())
	if err != nil {
		return err
	}
	if e.mappings, err = kernel.WatchMappings(online); err != nil {
		e.degrade("mappings", err)
	}
	return nil
}

func (e *Engine) followCPUsMappings() {
	online, err := kernel.OnlineCPUs(e.sysRoot())
	if err == nil {
		err = e.mappings.Follow(online)
	}
	if err != nil {
		e.logger.Error("Following mappings of code on CPUs that came or went", zap.Error(err))
	}
	e.unwinding.mappedAll() // nobody told of what they did meanwhile
}

// followMappings hears of mappings until the watch is closed.
func (e *Engine) followMappings() {
	lost := uint64(0)
	for {
		err := e.mappings.Read(e.unwinding.mapped)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			e.logger.Error("Following mappings of code", zap.Error(err))
			return
		}
		if now := e.mappings.Lost(); now != lost {
			lost = now
			e.unwinding.mappedAll()
		}
	}
}

func newUnwinding(maxBytes uint64, logger *zap.Logger) (*unwinding, error) {
	tables, err := store.New(maxBytes)
	if err != nil {
		return nil, err
	}
	return &unwinding{
		store: tables, logger: logger, wake: make(chan struct{}, 1),
		due: map[observe.SubjectKey]wanted{}, running: map[uint32]wanted{},
	}, nil
}

// want has the tables of a subject's mappings looked up. Subjects are bounded, and
// each is due once.
func (u *unwinding) want(key observe.SubjectKey, s *subject) {
	u.mu.Lock()
	w := wanted{key: key, subject: s}
	s.tables.key = key
	u.due[key] = w
	u.running[key.PID] = w
	u.mu.Unlock()
	u.rouse()
}

// mapped is told that a process has mapped code.
func (u *unwinding) mapped(pid uint32) {
	u.mu.Lock()
	w, ok := u.running[pid]
	if ok {
		w.again = true
		u.due[w.key] = w
	}
	u.mu.Unlock()
	if ok {
		u.rouse()
	}
}

// mappedAll is told that processes have mapped code, and not which.
func (u *unwinding) mappedAll() {
	u.mu.Lock()
	for _, w := range u.running {
		w.again = true
		u.due[w.key] = w
	}
	u.mu.Unlock()
	u.rouse()
}

// leave is told that a subject is closed, and what tables it had.
func (u *unwinding) leave(s *subject, tables *store.Space) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := s.tables.key
	if u.due[key].subject == s {
		delete(u.due, key)
	}
	if u.running[key.PID].subject == s {
		delete(u.running, key.PID)
	}
	u.retire(tables)
}

// retire frees tables later. The caller holds the lock.
func (u *unwinding) retire(tables *store.Space) {
	now := time.Now()
	if tables != nil {
		u.retired = append(u.retired, retired{tables, now})
	}
	for len(u.retired) > 0 && now.Sub(u.retired[0].at) > retireAfter {
		u.store.Free(u.retired[0].tables)
		u.retired = u.retired[1:]
	}
}

func (u *unwinding) rouse() {
	select {
	case u.wake <- struct{}{}:
	default: // it is awake
	}
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
			w, later, ok := u.next(time.Now())
			if !ok && later {
				time.AfterFunc(refreshPause, u.rouse)
			}
			if !ok {
				break
			}
			charge(func() { u.provide(w) })
		}
	}
}

// next takes the next subject that is due; later says that one will be.
func (u *unwinding) next(now time.Time) (w wanted, later, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, w := range u.due {
		if w.again && now.Sub(w.since) < refreshPause {
			later = true
			continue
		}
		delete(u.due, key)
		if known, ok := u.running[key.PID]; ok && known.subject == w.subject {
			known.since = now
			u.running[key.PID] = known
		}
		return w, later, true
	}
	return wanted{}, later, false
}

// provide makes a subject's list of mappings, with a table for each binary.
func (u *unwinding) provide(w wanted) {
	if w.again && !u.refresh(w.key, w.subject) {
		return
	}
	space := w.subject.space.Load()
	if space == nil {
		return
	}
	tables, err := u.store.NewSpace(u.mappings(space, w.key.PID))
	if err != nil {
		u.failed.Add(1)
		u.logger.Debug("Listing unwind tables", zap.Uint32("pid", w.key.PID), zap.Error(err))
		return
	}
	u.skipped.Add(uint64(tables.Skipped))
	old, ok := w.subject.install(tables)
	if !ok {
		old = tables // it was closed meanwhile
	} else {
		u.publish(w.key, w.subject)
	}
	u.mu.Lock()
	u.retire(old)
	u.mu.Unlock()
}

// mappings acquires the tables of all binaries that a program has mapped.
func (u *unwinding) mappings(space *symbol.AddressSpace, pid uint32) []store.Mapping {
	regions := space.Regions()
	out := make([]store.Mapping, 0, len(regions))
	for _, r := range regions {
		binary, err := u.store.Acquire(r.Content, func() (*unwind.Table, error) { return u.build(space, r) })
		if err != nil {
			u.failed.Add(1)
			u.logger.Debug("Making an unwind table", zap.Uint32("pid", pid), zap.String("file", r.Path()), zap.Error(err))
			continue
		}
		out = append(out, store.Mapping{Start: r.Start, End: r.End, Bias: r.Bias, Binary: binary})
	}
	for _, r := range space.CompiledRegions(maxCompiled) {
		out = append(out, store.Mapping{Start: r.Start, End: r.End, Kind: store.KindCompiled})
	}
	return out
}

// build makes the table of a region's binary; one that cannot have a table, as
// one that is damaged, has none. What may come right later is an error.
func (u *unwinding) build(space *symbol.AddressSpace, r symbol.Region) (_ *unwind.Table, err error) {
	image, closeFile, err := space.OpenRegion(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeFile()) }()
	table, errBuild := unwind.Build(image, unwind.Limits{})
	if errBuild != nil && !errors.Is(errBuild, unwind.ErrNone) {
		u.failed.Add(1)
		u.logger.Debug("Making an unwind table", zap.Error(fmt.Errorf("reading %s: %w", r.Path(), errBuild)))
	}
	return table, nil
}

func (u *unwinding) close() error { return u.store.Close() }
