// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"sync"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// pageAttributes is the capacity of a page in attributes: those of some 128 HTTP requests.
	pageAttributes = 128 * 18
	// pageLogs is the capacity of a page in logs: logs of lookups have half as many attributes.
	pageLogs  = 256
	pageBytes = pageLogs*uint64(unsafe.Sizeof(model.Log{})) + pageAttributes*uint64(unsafe.Sizeof(model.Attribute{}))
	// worthwhile is the number of logs of a process that are kept in a Room before the next ones get a page.
	worthwhile = 128
	// peerAttributes is the number of attributes of a peer for which a page keeps capacity.
	peerAttributes = 8
)

// Pages is memory for logs that is reused after their export. Unused pages are freed by the next garbage collections. The zero value is
// ready; its methods may be called from any goroutine.
type Pages struct{ free sync.Pool }

// page is memory for logs and their attributes.
type page struct {
	room Room
	logs [pageLogs]model.Log
	all  [pageAttributes]model.Attribute
}

// Together are logs of a process that are exported together, with memory for their attributes. It is used by one goroutine.
type Together struct {
	*model.Logs
	Room  *Room
	paged bool
}

// Few returns an empty list of a process for logs whose attributes are in a Room that is shared with other lists.
func Few(process *model.Process, room *Room) Together {
	return Together{Logs: &model.Logs{Process: process}, Room: room}
}

// Begin returns an empty list on a page; releasing the list returns the page.
func (p *Pages) Begin(process *model.Process) Together {
	on, ok := p.free.Get().(*page)
	if !ok {
		on = &page{}
	}
	on.room.free = on.all[:0]
	list := &model.Logs{Process: process, Logs: on.logs[:0], Bytes: pageBytes, Release: func() { p.free.Put(on) }}
	return Together{Logs: list, Room: &on.room, paged: true}
}

// Add adds the log of a request; event replaces its event name unless it is empty.
func (t *Together) Add(r *Request, event string, peer []model.Attribute, observed time.Time, more []model.Attribute) {
	l := r.Log(t.Room, peer, observed)
	if event != "" {
		l.Event = event
	}
	l.Attributes = append(l.Attributes, more...)
	t.Logs.Logs = append(t.Logs.Logs, l)
	if t.paged {
		t.Bytes += r.bytes() - requestBytes
	}
}

// Full reports whether the next log belongs on another page.
func (t *Together) Full() bool {
	if t.paged {
		return len(t.Logs.Logs) == pageLogs || cap(t.Room.free) < mostAttributes+peerAttributes
	}
	return len(t.Logs.Logs) >= worthwhile
}
