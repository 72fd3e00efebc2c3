// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// noteFollowers is called when what runs has changed.
func (e *Engine) noteFollowers() {
	var followers []observe.Follower
	for _, o := range e.running {
		if follower, ok := o.Observation.(observe.Follower); ok {
			followers = append(followers, follower)
		}
	}
	e.followers.Store(&followers)
}

// deciding says who has a pid now and whether it is in scope of a kind.
func (e *Engine) deciding(kind lifecycle.Scope) func(pid uint32) (model.ProcessID, bool) {
	return func(pid uint32) (model.ProcessID, bool) {
		p, inScope, err := e.table.LookupPID(pid)
		if err != nil || !inScope || p == nil {
			if err != nil && !errors.Is(err, process.ErrGone) {
				e.logger.Debug("Looking up a process", zap.Uint32("pid", pid), zap.Error(err))
			}
			return model.ProcessID{}, false
		}
		return p.ID, e.subjects.scopeOf(p)&kind != 0
	}
}

// follow calls tell with every observation that attaches to processes.
func (e *Engine) follow(tell func(observe.Follower)) {
	if followers := e.followers.Load(); followers != nil {
		for _, follower := range *followers {
			tell(follower)
		}
	}
}

// introduce has an observation that attaches to processes one by one look at all in scope:
// it has begun since they came, or its own scope is another.
func (e *Engine) introduce(o *running) {
	follower, ok := o.Observation.(observe.Follower)
	if !ok {
		return
	}
	for _, id := range e.table.InScope() {
		follower.Look(id.PID)
	}
}

// changed is told who came into scope, left it, or runs another program.
func (e *Engine) changed(changes []process.Change) {
	e.subjects.changed(changes)
	if e.policies != nil {
		e.policies.scopeChanged(changes)
	}
	if e.hooks.Exited != nil {
		for _, change := range changes {
			if change.Kind == process.Removed {
				e.hooks.Exited(change.ID)
			}
		}
	}
	e.follow(func(f observe.Follower) {
		for _, change := range changes {
			f.Look(change.ID.PID)
		}
	})
}

// over is told that what a process ran before an exec id is over.
func (e *Engine) over(id model.ProcessID, now uint32) {
	e.follow(func(f observe.Follower) { f.Over(id, now) })
}

// mapped is told that a process has mapped code, and says whether its mappings are
// followed.
func (e *Engine) mapped(pid uint32) bool {
	e.follow(func(f observe.Follower) { f.Look(pid) })
	return e.unwinding == nil || e.unwinding.mapped(pid)
}

// mappedAll is told that processes have mapped code, and not which.
func (e *Engine) mappedAll() {
	if e.unwinding != nil {
		e.unwinding.mappedAll()
	}
	e.follow(observe.Follower.LookAll)
}
