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

// weighed is a connection that may be given up.
type weighed struct {
	id     streamID
	s      *stream
	idle   bool // nothing is lost with it
	weight uint64
}

// before orders those first that are given up first.
func (x weighed) before(y weighed) int {
	switch {
	case x.idle && !y.idle:
		return -1
	case !x.idle && y.idle:
		return 1
	}
	return cmp.Compare(y.weight, x.weight)
}

// relieve gives up connections until there is room again: those first with which nothing is lost, and of them, as of the others, those
// that take most memory for longest without being used, so that neither many which are quiet nor a few that are made to take much keep
// others out. What they wait for is not told.
func (c *capture) relieve() {
	var newest uint64
	for _, s := range c.streams {
		newest = max(newest, s.last)
	}
	all := make([]weighed, 0, len(c.streams))
	for id, s := range c.streams {
		all = append(all, weighed{id, s, s.conn.Idle(), s.weight(newest)})
	}
	slices.SortFunc(all, weighed.before)
	c.relieving = true
	for _, x := range all {
		if c.connected <= c.mostConnected-c.mostConnected/relief {
			break
		}
		c.forget(x.id, x.s)
		if !x.idle {
			c.crowded++
		}
	}
	c.relieving = false
}
