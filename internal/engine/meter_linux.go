// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// meter adds up the CPU time of pieces of work.
type meter struct {
	used atomic.Int64
}

// run does the work and charges the CPU time of its thread.
func (m *meter) run(work func()) { m.measure(work) }

// measure does the same as run, and returns what was charged.
func (m *meter) measure(work func()) (used time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := kernel.ThreadCPUTime()
	work()
	after, errAfter := kernel.ThreadCPUTime()
	// The clock is always there on Linux; without it nothing can be charged.
	if err == nil && errAfter == nil {
		used = after - before
	}
	m.used.Add(int64(used))
	return used
}

func (m *meter) total() time.Duration { return time.Duration(m.used.Load()) }
