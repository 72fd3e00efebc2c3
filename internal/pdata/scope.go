// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// instrumentation is what the data of all signals come from.
type instrumentation struct{ name, version string }

// resourceOf is a resource's part of a message, scopeOf that of a scope within it, of any signal.
type (
	resourceOf interface {
		SetSchemaUrl(string)
		Resource() pcommon.Resource
	}
	scopeOf interface {
		SetSchemaUrl(string)
		Scope() pcommon.InstrumentationScope
	}
)

// put says in a process's resource and the one scope of it whose the data are, and returns
// an upper bound of the bytes of both.
func (i *instrumentation) put(resource resourceOf, scope scopeOf, process *model.Process) int {
	resource.SetSchemaUrl(SchemaURL)
	PutProcess(resource.Resource().Attributes(), process)
	scope.SetSchemaUrl(SchemaURL)
	scope.Scope().SetName(i.name)
	scope.Scope().SetVersion(i.version)
	return 4*sizeHeader + 2*sizeString(len(SchemaURL)) + sizeString(len(i.name)) + sizeString(len(i.version)) +
		sizeAttributes(resource.Resource().Attributes())
}

// eventBuilder puts events, such as logs and spans, into messages one by one.
type eventBuilder[E, M any] interface {
	// begin begins a message.
	begin()
	// bytes is an upper bound of what the message has.
	bytes() int
	add(process *model.Process, event *E)
	// end returns the message and forgets it.
	end() M
}

// events are those of a process.
type events[E any] struct {
	process *model.Process
	list    []E
}

// batch puts events into as many messages as it takes to have about maxBytes in each, one
// event at least.
// The function that it returns builds one message after the other, and returns false after the last one.
func batch[G, E, M any](b eventBuilder[E, M], in []G, of func(G) events[E], maxBytes int) func() (M, bool) {
	var group, event int // where the next message begins
	return func() (message M, ok bool) {
		if group == len(in) {
			return message, false
		}
		empty := true
		b.begin()
		for ; group < len(in); group, event = group+1, 0 {
			for one := of(in[group]); event < len(one.list); event++ {
				if b.bytes() >= maxBytes {
					return b.end(), true
				}
				b.add(one.process, &one.list[event])
				empty = false
			}
		}
		return b.end(), !empty
	}
}

// collect builds all messages.
func collect[M any](next func() (M, bool)) (all []M) {
	for message, ok := next(); ok; message, ok = next() {
		all = append(all, message)
	}
	return all
}
