// SPDX-License-Identifier: Apache-2.0

package process

import (
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Memory that one element of a map takes, free slots included. A map never gives back what it took when it was fullest.
const (
	pidMapBytes       = 28  // uint32 to pointer
	processMapBytes   = 42  // model.ProcessID to pointer or ChangeKind
	socketMapBytes    = 28  // uint64 to uint16
	namespaceBytes    = 300 // a network namespace without its sockets
	attributeMapBytes = 64  // string to string
)

const (
	entryBytes   = uint64(unsafe.Sizeof(entry{}))
	execBytes    = uint64(unsafe.Sizeof(execution{}))
	processBytes = uint64(unsafe.Sizeof(model.Process{}))
	stringBytes  = uint64(unsafe.Sizeof(""))
	waitingBytes = uint64(unsafe.Sizeof(waiting{}))
)

// Bytes estimates the memory that the table has allocated: processes, exited ones that can still be looked up included, and what waits to be
// decided or reported. Garbage is not in it. It costs about as much as counting the processes.
func (t *Table) Bytes() uint64 {
	bytes := t.ports.bytes()
	t.mu.RLock()
	defer t.mu.RUnlock()
	bytes += uint64(unsafe.Sizeof(*t)) + uint64(t.peak.known)*pidMapBytes + uint64(t.peak.lingering)*processMapBytes
	for _, e := range t.byPID {
		bytes += e.held()
	}
	for _, e := range t.lingering {
		bytes += e.held()
	}
	bytes += uint64(cap(t.ended)+cap(t.unread)) * uint64(unsafe.Sizeof(t.ended[0]))
	return bytes + uint64(cap(t.waiting))*waitingBytes + uint64(t.changes.peak)*processMapBytes
}

// peaks are the greatest numbers of elements that maps had.
type peaks struct{ known, lingering int }

// describe gives an entry what was read or inferred of its process.
func (e *entry) describe(p *model.Process) {
	e.process, e.bytes = p, sizeOf(p)
}

// held is the memory of an entry. The base that it shares with its parent counts there.
func (e *entry) held() uint64 {
	return entryBytes + allocated(len(e.comm)) + uint64(e.bytes) + e.execution.held()
}

// held is the memory of an execution, which forks share: it counts for each of them.
func (e *execution) held() uint64 {
	if e == nil {
		return 0
	}
	bytes := execBytes + allocated(len(e.executable)) + allocated(len(e.environment.serviceName)) + allocated(len(e.environment.serviceInstance))
	for _, s := range e.arguments {
		bytes += stringBytes + allocated(len(s))
	}
	return bytes
}

// sizeOf is the memory of a process's description.
func sizeOf(p *model.Process) uint32 {
	if p == nil {
		return 0
	}
	bytes := processBytes
	for _, s := range [...]string{p.Comm, p.Executable, p.ServiceName, p.ServiceInstanceID, p.ContainerID, p.PodUID} {
		bytes += allocated(len(s))
	}
	bytes += uint64(cap(p.Arguments)) * stringBytes
	for _, s := range p.Arguments {
		bytes += allocated(len(s))
	}
	// Keys and values are those of the configuration.
	return uint32(bytes) + uint32(len(p.Attributes)*attributeMapBytes)
}

// allocated is what the runtime takes for n bytes, roughly: multiples of 16.
func allocated(n int) uint64 { return (uint64(n) + 15) &^ 15 }

// bytes estimates what is known of listening sockets.
func (x *portIndex) bytes() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	var bytes uint64
	for _, ns := range x.namespaces {
		bytes += namespaceBytes + uint64(len(ns.sockets))*socketMapBytes
	}
	return bytes
}
