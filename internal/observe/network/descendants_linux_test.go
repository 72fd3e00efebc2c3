// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
)

// descendants knows which processes this one has started, also after they have exited, and puts the others out of scope: what they do and lose
// must not fail a test. It follows the forks of the host from when it begins.
type descendants struct {
	tracker *lifecycle.Tracker
	flushed chan struct{} // has a value when all forks before a flush have been read; closed when no more are read

	mu  sync.Mutex
	own map[uint32]bool // by pid
}

// followForks reads all events of a tracker, until the tracker is closed.
func followForks(tracker *lifecycle.Tracker) *descendants {
	d := &descendants{tracker: tracker, flushed: make(chan struct{}), own: map[uint32]bool{uint32(os.Getpid()): true}}
	go d.read()
	running, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, folder := range running {
		if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil {
			if own, found := isDescendant(pid); found {
				d.learn(uint32(pid), own)
			}
		}
	}
	return d
}

func (d *descendants) read() {
	defer close(d.flushed)
	for {
		switch event, err := d.tracker.Read(); {
		case errors.Is(err, lifecycle.ErrFlushed):
			d.flushed <- struct{}{}
		case err != nil:
			return
		case event.Type == lifecycle.Fork:
			d.fork(event.ParentPID, event.PID)
		}
	}
}

// fork notes a new process, which may have the pid of one that has exited.
func (d *descendants) fork(parent, pid uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.own, pid)
	if own, known := d.own[parent]; known {
		d.put(pid, own)
	}
}

// learn notes what is known of a process otherwise than by its fork, which counts more.
func (d *descendants) learn(pid uint32, own bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.own[pid]; !known {
		d.put(pid, own)
	}
}

// put is called with the lock held. Before a decision a process is in scope.
func (d *descendants) put(pid uint32, own bool) {
	d.own[pid] = own
	if !own {
		_ = d.tracker.Decide(pid, lifecycle.ScopeNone) // fails if the tracker is closed: then nothing is observed
	}
}

// foreign reports whether this process has not started another one. One of which nothing is known, because it has exited, counts as started.
func (d *descendants) foreign(pid uint32) bool {
	if err := d.tracker.Flush(); err == nil {
		<-d.flushed
	}
	d.mu.Lock()
	own, known := d.own[pid]
	d.mu.Unlock()
	if known {
		return !own
	}
	own, found := isDescendant(int(pid))
	return found && !own
}

// isDescendant looks for this process among the ancestors of another one. It finds nothing if one of them has exited.
func isDescendant(pid int) (own, found bool) {
	for pid != os.Getpid() {
		stat, err := proctest.ReadStat(proctest.Process(pid))
		if err != nil || stat.Parent == 0 {
			return false, err == nil
		}
		pid = stat.Parent
	}
	return true, true
}
