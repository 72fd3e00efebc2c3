// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// opaque are connections with TLS that have ended, and of which no plaintext was captured.
type opaque struct {
	mu      sync.Mutex
	seen    map[opaqueKey]uint64 // connections of processes that are not decided yet
	counted map[tls.Library]uint64
}

// opaqueKey is the process of the connection, zero if the kernel's series was freed, and the library of that process, "" if unknown.
type opaqueKey struct {
	subject observe.SubjectKey
	library tls.Library
}

func newOpaque() opaque {
	return opaque{seen: map[opaqueKey]uint64{}, counted: map[tls.Library]uint64{}}
}

// see notes a connection. Its process may not be decided yet: short-lived programs are discovered by what they do.
func (o *opaque) see(key opaqueKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[key]++
}

// name counts the connections of processes that are in scope. One without a process belongs to a process that was found out of scope
// meanwhile, and whose series was freed: a series stays for two reports after its connections.
func (o *opaque) name(inScope func(observe.SubjectKey) bool) {
	o.mu.Lock()
	seen := o.seen
	o.seen = map[opaqueKey]uint64{}
	o.mu.Unlock()
	for key := range seen {
		if key.subject == (observe.SubjectKey{}) || !inScope(key.subject) {
			delete(seen, key)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, n := range seen {
		o.counted[key.library] += n
	}
}

// of returns the number of connections with a library.
func (o *opaque) of(library tls.Library) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counted[library]
}
