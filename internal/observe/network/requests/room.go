// SPDX-License-Identifier: Apache-2.0

package requests

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// roomFor is for how many attributes memory is taken at once, those of some thirty requests.
const roomFor = 512

// Room is memory for the attributes of many logs: they lie one after the other, each log
// has as many as it needs, and the collector of garbage has few pieces to look at. It is
// used by one goroutine.
type Room struct{ free []model.Attribute }

// begin returns an empty list that can take so many.
func (r *Room) begin(most int) []model.Attribute {
	if cap(r.free) < most {
		r.free = make([]model.Attribute, 0, max(most, roomFor))
	}
	return r.free
}

// end takes the list that was begun out of the room, and returns it without what is left.
func (r *Room) end(list []model.Attribute) []model.Attribute {
	n := len(list)
	r.free = list[n:]
	return list[:n:n]
}
