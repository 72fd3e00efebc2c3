// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"slices"
)

const (
	// minConnected is the memory that connections may take in any case. One that has been told
	// one request after the other takes some 3 KB.
	minConnected = 4 << 20
	// relief is the part of the memory of connections that is made free when it is taken: to look
	// for those that are given up takes time.
	relief = 16
)

// measure counts the memory that a connection takes now.
func (c *capture) measure(s *stream) {
	held := streamBytes + uint64(s.conn.Held())
	c.connected += held - s.held
	s.held = held
}

// relieve gives up connections until there is room again: those first that take most memory for longest without being used, so that
// neither many which are quiet nor a few that are made to take much keep others out. What they wait for is not told.
func (c *capture) relieve() {
	type weighed struct {
		id     streamID
		s      *stream
		weight uint64
	}
	var newest uint64
	for _, s := range c.streams {
		newest = max(newest, s.last)
	}
	all := make([]weighed, 0, len(c.streams))
	for id, s := range c.streams {
		all = append(all, weighed{id, s, s.weight(newest)})
	}
	slices.SortFunc(all, func(x, y weighed) int { return cmp.Compare(y.weight, x.weight) })
	c.relieving = true
	for _, x := range all {
		if c.connected <= c.mostConnected-c.mostConnected/relief {
			break
		}
		c.forget(x.id, x.s)
		c.crowded++
	}
	c.relieving = false
}
