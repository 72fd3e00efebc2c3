// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"sync"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// opaque are connections with TLS that have ended, and of which no plaintext was seen.
type opaque struct {
	mu      sync.Mutex
	seen    map[opaqueKey]uint64 // of whom it is not known yet whether they are in scope
	counted map[tls.Library]uint64
}

// opaqueKey is whose connection it was, nobody's where the kernel's series has gone, and the library of that process, "" where none is known.
type opaqueKey struct {
	subject observe.SubjectKey
	library tls.Library
}

func newOpaque() opaque {
	return opaque{seen: map[opaqueKey]uint64{}, counted: map[tls.Library]uint64{}}
}

// see notes a connection. Nobody may have decided about its process yet: programs that live for moments are met with what they do.
func (o *opaque) see(key opaqueKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[key]++
}

// name counts those that were seen, of the processes that are in scope, and those of nobody.
func (o *opaque) name(inScope func(observe.SubjectKey) bool) {
	o.mu.Lock()
	seen := o.seen
	o.seen = map[opaqueKey]uint64{}
	o.mu.Unlock()
	for key := range seen {
		if key.subject != (observe.SubjectKey{}) && !inScope(key.subject) {
			delete(seen, key)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, n := range seen {
		o.counted[key.library] += n
	}
}

// of is how many there were of a library.
func (o *opaque) of(library tls.Library) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counted[library]
}
