// SPDX-License-Identifier: Apache-2.0

package requests

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// roomFor is the number of attributes that are allocated at once: those of some thirty requests.
const roomFor = 512

// Room is memory for the attributes of many logs. They are stored one after the other, each log has exactly as many as it needs, and the
// garbage collector has few objects to scan. It is used by one goroutine.
type Room struct{ free []model.Attribute }

// begin returns an empty list with a capacity of most attributes.
func (r *Room) begin(most int) []model.Attribute {
	if cap(r.free) < most {
		r.free = make([]model.Attribute, 0, max(most, roomFor))
	}
	return r.free
}

// end takes the list that was begun out of the room, and returns it without its unused capacity.
func (r *Room) end(list []model.Attribute) []model.Attribute {
	n := len(list)
	r.free = list[n:]
	return list[:n:n]
}
