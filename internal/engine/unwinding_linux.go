// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind/store"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

const (
	// retireAfter is how long a list outlives its use: the kernel shares it with forks for
	// a while (SCOPE_SHARED_NS of bpf/include/process.h), and a margin is added.
	retireAfter = 2 * time.Second
	// maxCompiled bounds the pieces of compiled code in a list, which must not
	// displace binaries; those beyond are unwound the same way.
	maxCompiled = 256
	// discoverMin and discoverMax bound the wait for unwind tables before sampling begins: a process that
	// keeps a CPU busy is discovered within some milliseconds, and the first sample is due
	// 700 ms after the start of the process, a third of which is there for this.
	discoverMin, discoverMax = 30 * time.Millisecond, 220 * time.Millisecond
)

// unwinding gives the programs in scope unwind tables. It works in the background: a stack that is taken before its tables are there is unwound by
// frame pointers.
type unwinding struct {
	store    *store.Kernel
	warnings *warn.Rarely
	// refresh reads a subject's mappings again; false when it runs no more.
	refresh func(observe.SubjectKey, *subject) bool
	// publish sends the kernel where the tables of a subject are, if it still runs.
	publish func(observe.SubjectKey, *subject)

	mu sync.Mutex // all below
	// due are those whose mappings have changed, or may have: they are to be read again.
	due     map[observe.SubjectKey]wanted
	running map[uint32]wanted // by pid: the subjects whose mappings are followed
	// unfollowed are processes that mapped code while they were not followed, such as while
	// they were being read.
	unfollowed unfollowed
	retired    []retired
	// small and large are the binaries that lack tables: one that takes long delays no
	// other. The goroutine that works at small works at due, too.
	small, large queue

	// sending is held while a list is made and sent, so that the last one sent is
	// the newest.
	sending sync.Mutex

	// stopping is set when the engine ends: a table that is being made is given up.
	stopping atomic.Bool
	// failed counts tables and lists that could not be made, incomplete the tables
	// that lack a part, skipped the mappings that did not fit in a list.
	failed, incomplete, skipped atomic.Uint64
}

// wanted is a subject that has unwind tables.
type wanted struct {
	key     observe.SubjectKey
	subject *subject
}

type retired struct {
	tables *store.Space
	at     time.Time
}

// startUnwinding makes the maps of unwind tables.
func (e *Engine) startUnwinding() error {
	var err error
	if e.unwinding, err = newUnwinding(e.config.MemoryBytes, e.logger, e.config.Warned); err != nil {
		return fmt.Errorf("preparing unwind tables: %w", err)
	}
	e.unwinding.refresh, e.unwinding.publish = e.subjects.refresh, e.subjects.publish
	e.subjects.unwinding = e.unwinding
	e.prefetch.flush, e.prefetch.logger = e.tracker.Flush, e.logger
	return nil
}

// startMappings begins to follow which processes map code. It is called by one goroutine at a time.
func (e *Engine) startMappings() error {
	online, err := kernel.OnlineCPUs(e.sysRoot())
	if err != nil {
		return err
	}
	watch, err := kernel.WatchMappings(online)
	if err != nil {
		e.degrade("mappings", err)
		return nil
	}
	e.mappings.Store(watch)
	return nil
}

func (e *Engine) followCPUsMappings(watch *kernel.MappingWatch) {
	online, err := kernel.OnlineCPUs(e.sysRoot())
	if err == nil {
		err = watch.Follow(online)
	}
	if err != nil {
		e.logger.Error("Following mappings of code on CPUs that came or went", zap.Error(err))
	}
	e.mappedAll() // no event reported what they did in between
}

// followMappings reads mappings until the watch is closed.
func (e *Engine) followMappings(watch *kernel.MappingWatch) {
	lost := uint64(0)
	for {
		unfollowed := false
		err := watch.Read(func(pid uint32) {
			if !e.mapped(pid) {
				unfollowed = true
			}
		})
		if unfollowed {
			e.prefetch.flushSoon()
		}
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			e.logger.Error("Following mappings of code", zap.Error(err))
			return
		}
		if now := watch.Lost(); now != lost {
			lost = now
			e.mappedAll()
		}
	}
}

// newUnwinding makes the maps of unwind tables, of their share of the memory limit.
func newUnwinding(memory uint64, logger *zap.Logger, warned *warn.Memory) (*unwinding, error) {
	tables, err := store.New(memory / unwindShare)
	if err != nil {
		return nil, err
	}
	return &unwinding{
		store: tables, warnings: warn.NewRarely(logger, "Some stacks will be unwound by frame pointers alone", nil).Remember(warned),
		due: map[observe.SubjectKey]wanted{}, running: map[uint32]wanted{},
		small: newQueue(memory / 16 * smallBuilding), large: newQueue(memory / 16 * largeBuilding),
	}, nil
}

// want follows a subject's mappings from now on. answer sends the kernel the
// tables that exist already; those that are missing are made.
func (u *unwinding) want(key observe.SubjectKey, s *subject, space *symbol.AddressSpace, answer func()) {
	w := wanted{key: key, subject: s}
	u.mu.Lock()
	s.tables.key = key
	u.running[key.PID] = w
	if u.unfollowed.since(key.PID, space.ReadSince()) || space.Incomplete() { // they may have changed while they were read
		u.due[key] = w
		rouse(u.small.wake)
	}
	u.mu.Unlock()
	missing := u.sendTables(w, space, answer)
	u.enqueue(w, space, missing, space.TablesOver())
}

// settle waits until the discovered processes have their tables, within bounds.
func (u *unwinding) settle(most time.Duration) {
	began := time.Now()
	time.Sleep(discoverMin)
	for time.Since(began) < most && !u.idle() {
		time.Sleep(5 * time.Millisecond)
	}
}

// idle reports whether there is nothing to make.
func (u *unwinding) idle() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.due) == 0 && u.small.idle() && u.large.idle()
}

// mapped records that a process has mapped code, and reports whether it is followed.
func (u *unwinding) mapped(pid uint32) bool {
	u.mu.Lock()
	w, ok := u.running[pid]
	if ok {
		u.due[w.key] = w
	} else {
		u.unfollowed.note(pid, time.Now())
	}
	u.mu.Unlock()
	if ok {
		rouse(u.small.wake)
	}
	return ok
}

// mappedAll records that processes have mapped code, where it is not known which.
func (u *unwinding) mappedAll() {
	u.mu.Lock()
	for _, w := range u.running {
		u.due[w.key] = w
	}
	u.mu.Unlock()
	rouse(u.small.wake)
}

// leave is called when a subject is closed, with the tables that it had.
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

func rouse(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it is running
	}
}

func (u *unwinding) close() error {
	u.warnings.Close()
	return u.store.Close()
}
