// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// portsAge is how old the tables of a network namespace may be when a
	// process is decided about.
	portsAge = time.Second
	// maxDescriptors bounds the files of one process that are examined.
	maxDescriptors = 65536
)

// listening is on which of the watched ports a process listens. It is valid as long as the listening sockets of its network namespace stay
// the same. A socket that another process hands over is not noticed in between.
type listening struct {
	namespace  uint64 // inode of the network namespace; 0: not known
	generation uint64 // of the sockets of the namespace; 0: never read
	ports      []uint16
}

// portIndex finds listening sockets, one network namespace at a time.
type portIndex struct {
	now        func() time.Time
	mu         sync.Mutex
	watched    map[uint16]bool // replaced, never changed
	namespaces map[uint64]*namespacePorts
	generation uint64
}

// namespacePorts are the listening sockets of a network namespace.
type namespacePorts struct {
	sockets    map[uint64]uint16 // inode to port; replaced, never changed
	generation uint64
	checked    time.Time
	used       time.Time
}

func (x *portIndex) init(now func() time.Time) {
	x.now, x.namespaces = now, map[uint64]*namespacePorts{}
}

// watch adds the ports of the matchers. They are searched from the next scan on.
func (x *portIndex) watch(matchers []*Matcher) {
	x.mu.Lock()
	defer x.mu.Unlock()
	watched := maps.Clone(x.watched)
	for _, m := range matchers {
		if m.port != 0 && !watched[m.port] {
			if watched == nil {
				watched = map[uint16]bool{}
			}
			watched[m.port] = true
			clear(x.namespaces)
		}
	}
	x.watched = watched
}

// used reports whether any selector has a port.
func (x *portIndex) used() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.watched) > 0
}

// of returns what a process listens on. The known value is returned if no socket was opened or closed.
func (x *portIndex) of(fs procFS, pid uint32, namespace uint64, known listening) listening {
	if namespace == 0 {
		return listening{}
	}
	sockets, generation := x.socketsOf(fs, pid, namespace)
	if known.namespace == namespace && known.generation == generation {
		return known
	}
	l := listening{namespace: namespace, generation: generation}
	if len(sockets) > 0 {
		l.ports = x.descriptors(fs, pid, sockets)
	}
	return l
}

// socketsOf returns the listening sockets of a namespace, as one of its
// processes sees them.
func (x *portIndex) socketsOf(fs procFS, pid uint32, namespace uint64) (map[uint64]uint16, uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	ns := x.namespaces[namespace]
	if ns == nil {
		x.generation++
		ns = &namespacePorts{generation: x.generation}
		x.namespaces[namespace] = ns
	}
	ns.used = now
	if !ns.checked.IsZero() && now.Sub(ns.checked) < portsAge {
		return ns.sockets, ns.generation
	}
	sockets, ok := x.read(fs, pid)
	if !ok {
		return ns.sockets, ns.generation // the next process is tried
	}
	ns.checked = now
	if !maps.Equal(sockets, ns.sockets) {
		x.generation++
		ns.sockets, ns.generation = sockets, x.generation
	}
	return ns.sockets, ns.generation
}

// read reads the socket tables; not ok when the process has exited.
func (x *portIndex) read(fs procFS, pid uint32) (sockets map[uint64]uint16, ok bool) {
	sockets = map[uint64]uint16{}
	pid = fs.shownAs(pid)
	for _, table := range socketTables {
		f, err := os.Open(fs.path(pid) + "/" + table.name)
		if err == nil {
			err = table.parse(f, x.watched, sockets)
			f.Close() //nolint:errcheck,gosec // opened for reading: nothing can be lost
		}
		if errors.Is(err, os.ErrNotExist) && table.optional {
			err = nil
		}
		if errors.Is(err, errTooManySockets) {
			fs.cutShort(pid, table.name, err)
			err = nil
		}
		if err != nil {
			_ = fs.failed(pid, table.name, err) // it is noted there
			return nil, false
		}
	}
	// An optional table may have been missing because the process exited.
	if _, err := os.Lstat(fs.path(pid)); err != nil {
		return nil, false
	}
	return sockets, true
}

// descriptors finds out which of the sockets a process holds.
func (x *portIndex) descriptors(fs procFS, pid uint32, sockets map[uint64]uint16) []uint16 {
	const name = "fd"
	pid = fs.shownAs(pid)
	path := fs.path(pid) + "/" + name
	dir, err := openDirectory(path)
	if err != nil {
		_ = fs.failed(pid, name, err) // it is noted there
		return nil
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	var ports []uint16
	var buf [64]byte
	n := 0
	err = eachName(path, func(fd string) error {
		if n++; n > maxDescriptors {
			fs.cutShort(pid, name, fmt.Errorf("it has more than %d files", maxDescriptors))
			return errStop
		}
		link, err := dir.readLink(fd, buf[:])
		if err != nil {
			return nil // closed meanwhile
		}
		if port, ok := sockets[inodeOf(link, "socket:[")]; ok && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		_ = fs.failed(pid, name, err) // it is noted there
	}
	slices.Sort(ports)
	return ports
}

// errStop ends a listing early.
var errStop = errors.New("enough")

// prune drops the namespaces that no process is in.
func (x *portIndex) prune(since time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.namespaces, func(_ uint64, ns *namespacePorts) bool { return ns.used.Before(since) })
}

// visitPorts finds processes that began or ceased to listen.
func (s *scanner) visitPorts(ctx context.Context) error {
	t := s.table
	start := t.cfg.Now()
	var buf [64]byte
	var denied []denial // counts alone: it was logged when the process was read, if it matters
	fs := t.fs.holding(&denied)
	for _, e := range s.listeners() {
		if err := ctx.Err(); err != nil {
			return err
		}
		denied = denied[:0]
		namespace := e.known.namespace
		if namespace == 0 {
			if namespace = fs.namespaceOf(e.id.PID, buf[:]); namespace == 0 {
				continue
			}
		}
		now := t.ports.of(fs, e.id.PID, namespace, e.known)
		changed := !slices.Equal(now.ports, e.known.ports)
		if changed && t.rules.uses&fieldPort != 0 {
			_, _ = t.evaluate(e.id) //nolint:errcheck // counted where it happens
			continue
		}
		t.mu.Lock()
		if kept := t.get(e.id); kept != nil {
			if kept.network = now; changed {
				t.changes.decided(kept, Described)
			}
		}
		t.mu.Unlock()
	}
	t.ports.prune(start)
	return nil
}

// listener is a process whose ports are examined.
type listener struct {
	id    model.ProcessID
	known listening
}

// listeners are the processes that can listen: kernel threads cannot.
func (s *scanner) listeners() []listener {
	t := s.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]listener, 0, len(t.byPID))
	for _, e := range t.byPID {
		if !e.kernel && e.scan == s.number {
			list = append(list, listener{id: e.id, known: e.network})
		}
	}
	return list
}
