// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// descendants knows which processes this one has started, also after they have exited: what other processes on the host lose must not fail a
// test. It follows the forks of the host from when it begins.
type descendants struct {
	tracker *lifecycle.Tracker
	flushed chan struct{} // has a value when all forks before a flush have been read; closed when no more are read

	mu  sync.Mutex
	own map[uint32]bool // by pid
}

// followForks reads all events of a tracker, until the tracker is closed.
func followForks(tracker *lifecycle.Tracker) *descendants {
	d := &descendants{tracker: tracker, flushed: make(chan struct{}), own: map[uint32]bool{}}
	go d.read()
	running, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range running {
		if n, err := strconv.ParseUint(filepath.Base(dir), 10, 32); err == nil {
			pid := uint32(n)
			if own, found := isDescendant(pid); found {
				d.learn(pid, own)
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
	if own, known := d.own[parent]; known || parent == uint32(os.Getpid()) {
		d.own[pid] = own || parent == uint32(os.Getpid())
	}
}

// learn notes what is known of a process otherwise than by its fork, which counts more.
func (d *descendants) learn(pid uint32, own bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.own[pid]; !known {
		d.own[pid] = own
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
	own, found := isDescendant(pid)
	return found && !own
}

// isDescendant looks for this process among the ancestors of another one. It finds nothing if one of them has exited.
func isDescendant(pid uint32) (own, found bool) {
	for self := uint32(os.Getpid()); pid != self; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false, false
		}
		_, fields, _ := strings.Cut(string(text), ") ") // the state and the parent
		var state string
		if _, err := fmt.Sscan(fields, &state, &pid); err != nil || pid == 0 {
			return false, err == nil
		}
	}
	return true, true
}
