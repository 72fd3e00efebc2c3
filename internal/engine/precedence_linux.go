// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"runtime"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// longestYield bounds how long a step of background work waits for the loop: the loop may wait for a result of background work itself.
const longestYield = 200 * time.Millisecond

// precedence gives the engine's loop, which drains and reports, precedence over background work such as reading symbol tables: the loop's
// thread has a raised priority while an iteration runs, and steps of background work wait until it has ended. On a host whose CPUs are
// overloaded the process gets little CPU time. Without precedence, background work uses most of it, or holds Go's processors while its
// threads wait for a CPU, and a report that takes milliseconds of CPU time comes many seconds late. What an iteration costs is bounded by
// limits::cpu_percent. The zero value is ready to use. It is safe for concurrent use.
type precedence struct {
	mu      sync.Mutex
	running chan struct{} // closed at the end of the iteration that runs; nil: none runs
}

// first runs an iteration of the loop. Iterations do not overlap.
func (p *precedence) first(iteration func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer kernel.RaisePriority()()
	done := make(chan struct{})
	p.set(done)
	defer close(done)
	defer p.set(nil)
	iteration()
}

func (p *precedence) set(running chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = running
}

// yield waits until no iteration runs, at most for longestYield.
func (p *precedence) yield() {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	if running == nil {
		return
	}
	timer := time.NewTimer(longestYield)
	defer timer.Stop()
	select {
	case <-running:
	case <-timer.C:
	}
}
