// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"sync"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// pageAttributes is how many attributes a page has room for: of HTTP, those of some 128
	// requests.
	pageAttributes = 128 * 18
	// pageLogs is how many logs it has room for, of which those of lookups, with half as many
	// attributes, need more.
	pageLogs  = 256
	pageBytes = pageLogs*uint64(unsafe.Sizeof(model.Log{})) + pageAttributes*uint64(unsafe.Sizeof(model.Attribute{}))
	// worthwhile is how many logs of a process lie where there is room for as many, before
	// the next have a page.
	worthwhile = 128
	// peerAttributes is how many attributes of a peer a page is not full for.
	peerAttributes = 8
)

// Pages is memory for logs that is used again once they were told. What is not in use goes
// with the next collections of garbage. The zero value is ready; its methods may be called
// from any goroutine.
type Pages struct{ free sync.Pool }

// page is memory for logs and their attributes.
type page struct {
	room Room
	logs [pageLogs]model.Log
	all  [pageAttributes]model.Attribute
}

// Together are logs of a process that lie together, with the room for their attributes. It is
// used by one goroutine.
type Together struct {
	*model.Logs
	Room  *Room
	paged bool
}

// Few returns an empty list of a process, for logs with their attributes in a room that others
// use as well.
func Few(process *model.Process, room *Room) Together {
	return Together{Logs: &model.Logs{Process: process}, Room: room}
}

// Begin returns an empty list on a page, which the release of the list gives back.
func (p *Pages) Begin(process *model.Process) Together {
	on, ok := p.free.Get().(*page)
	if !ok {
		on = &page{}
	}
	on.room.free = on.all[:0]
	list := &model.Logs{Process: process, Logs: on.logs[:0], Bytes: pageBytes, Release: func() { p.free.Put(on) }}
	return Together{Logs: list, Room: &on.room, paged: true}
}

// Tell adds a log of a request, under another name than its own if one is given.
func (t *Together) Tell(r *Request, event string, peer []model.Attribute, observed time.Time, more []model.Attribute) {
	l := r.Log(t.Room, peer, observed)
	if event != "" {
		l.Event = event
	}
	l.Attributes = append(l.Attributes, more...)
	t.Logs.Logs = append(t.Logs.Logs, l)
	if t.paged {
		t.Bytes += r.bytes() - placeBytes
	}
}

// Full tells whether the next log belongs on another page.
func (t *Together) Full() bool {
	if t.paged {
		return len(t.Logs.Logs) == pageLogs || cap(t.Room.free) < mostAttributes+peerAttributes
	}
	return len(t.Logs.Logs) >= worthwhile
}
