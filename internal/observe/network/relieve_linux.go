// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

const (
	// minConnected is the memory that connections may take in any case. One that has carried one request after the other takes some 3 KB.
	minConnected = 4 << 20
	// relief is the part of the memory of connections that is freed when it is exhausted: it takes time to find those to give up.
	relief = 16
)

// measure updates the memory that a connection takes.
func (c *capture) measure(s *stream) {
	held := streamBytes + uint64(s.conn.Held())
	c.connected += held - s.held
	s.held = held
}

// weighed is a connection that may be given up.
type weighed struct {
	id      streamID
	s       *stream
	settled bool // nothing is lost with it
	weight  uint64
}

// before sorts those first that are given up first.
func (x weighed) before(y weighed) int {
	switch {
	case x.settled && !y.settled:
		return -1
	case !x.settled && y.settled:
		return 1
	}
	return cmp.Compare(y.weight, x.weight)
}

// relieve gives up connections until there is memory again. Those with which nothing is lost go first. Of them, and then of the others, those
// go first that take most memory for longest without being used. So neither many quiet connections nor a few that are made to take much keep
// others out. Each request that they wait for is counted as lost.
func (c *capture) relieve() {
	var newest uint64
	for _, s := range c.streams {
		newest = max(newest, s.last)
	}
	all := make([]weighed, 0, len(c.streams))
	for id, s := range c.streams {
		all = append(all, weighed{id, s, s.conn.Settled(), s.weight(newest)})
	}
	slices.SortFunc(all, weighed.before)
	for _, x := range all {
		if c.connected <= c.mostConnected-c.mostConnected/relief {
			break
		}
		c.abandon(x.id, x.s, x.settled, "connections_full")
	}
}

// abandon forgets a connection that is still open. Each request that it waits for is counted as lost for the reason; if it is not settled but
// no request is known, one is counted: it has the beginning of one.
func (c *capture) abandon(id streamID, s *stream, settled bool, reason requests.LossReason) {
	c.relieving, c.unfinished = true, 0
	c.forget(id, s)
	c.relieving = false
	lost := c.unfinished
	if !settled {
		lost = max(lost, 1)
	}
	c.lost.Add(s.connection.Subject, reason, lost)
}
