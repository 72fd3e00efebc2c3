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

// noteFollowers updates the list of followers. It is called when the running observations have changed.
func (e *Engine) noteFollowers() {
	var followers []observe.Follower
	for _, o := range e.running {
		if follower, ok := o.Observation.(observe.Follower); ok {
			followers = append(followers, follower)
		}
	}
	e.followers.Store(&followers)
}

// deciding returns a function that finds the process that has a pid now, and whether it is in scope of a kind.
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

// eachFollower calls notify with every observation that attaches to processes one by one.
func (e *Engine) eachFollower(notify func(observe.Follower)) {
	if followers := e.followers.Load(); followers != nil {
		for _, follower := range *followers {
			notify(follower)
		}
	}
}

// introduce notifies an observation that attaches to processes one by one of all processes in scope:
// it began later than they did, or its own scope has changed.
func (e *Engine) introduce(o *running) {
	follower, ok := o.Observation.(observe.Follower)
	if !ok {
		return
	}
	for _, id := range e.table.InScope() {
		follower.Look(id.PID)
	}
}

// changed is called with the processes that came into scope, left it, or run another program.
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
	e.eachFollower(func(f observe.Follower) {
		for _, change := range changes {
			f.Look(change.ID.PID)
		}
	})
}

// over is called when the programs that a process ran before an exec id have ended.
func (e *Engine) over(id model.ProcessID, now uint32) {
	e.eachFollower(func(f observe.Follower) { f.Over(id, now) })
}

// mapped is called when a process has mapped code. It reports whether its mappings are
// followed.
func (e *Engine) mapped(pid uint32) bool {
	e.eachFollower(func(f observe.Follower) { f.Look(pid) })
	return e.unwinding == nil || e.unwinding.mapped(pid)
}

// mappedAll is called when processes have mapped code and it is not known which.
func (e *Engine) mappedAll() {
	if e.unwinding != nil {
		e.unwinding.mappedAll()
	}
	e.eachFollower(observe.Follower.LookAll)
}
