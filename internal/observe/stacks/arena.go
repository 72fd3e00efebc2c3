// SPDX-License-Identifier: Apache-2.0

package stacks

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// frameArena hands out the memory of an interval's stacks in large pieces: one
// allocation serves many stacks.
type frameArena struct {
	free []*model.Frame
}

const frameArenaChunk = 4096

// room returns an empty slice with space for n frames.
func (a *frameArena) room(n int) []*model.Frame {
	if cap(a.free)-len(a.free) < n {
		a.free = make([]*model.Frame, 0, max(frameArenaChunk, n))
	}
	return a.free[len(a.free):len(a.free):cap(a.free)]
}

// keep makes what was appended to the last room the caller's.
func (a *frameArena) keep(frames []*model.Frame) []*model.Frame {
	n := len(frames)
	if cap(a.free)-len(a.free) >= n && n > 0 && &frames[0] == &a.free[:len(a.free)+1][len(a.free)] {
		a.free = a.free[:len(a.free)+n]
	}
	return frames[:n:n]
}
