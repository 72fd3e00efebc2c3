// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// maxLate bounds the connections that are known to have begun before their library was attached to.
const maxLate = 16384

// late are connections whose TLS began before the library of their process was attached to: what they carried before that was not captured.
// Such a connection counts as opaque when it ends, if no request that began afterwards was captured. Entries are removed with the connection;
// if the connection is not tracked, and its end was not seen, they are removed when the kernel has forgotten the connection, or after
// waitsFor.
type late struct {
	open map[streamID]*lateConnection
}

type lateConnection struct {
	// seen: a whole request was captured. left is how many requests were left out before.
	seen bool
	left uint64
	// series and generation identify the kernel's series of the connection, began is when its TLS was found, in ns of CLOCK_MONOTONIC.
	series, generation uint32
	began              uint64
}

func newLate() late { return late{open: map[streamID]*lateConnection{}} }

// beginTLS handles TLS that was found on a connection outside of any call of a library.
func (c *capture) beginTLS(p *segment) {
	if c.attachedAt != nil {
		if at := c.attachedAt(c.connectionOf(p).Subject.PID); at != 0 && at < p.Began {
			return // the library works on memory, and what it encrypts is captured
		}
	}
	if len(c.late.open) >= maxLate {
		c.lost.Add(c.connectionOf(p).Subject, "connections_full", 1)
		return
	}
	c.late.open[c.idOf(p)] = &lateConnection{series: p.Series, generation: p.Generation, began: p.Began}
}

// forgetLate forgets that a connection began before its library was attached to, when the connection itself is forgotten before its end. If
// no other request was captured, those that were left out count as unpaired: the connection may not count as opaque any more.
func (c *capture) forgetLate(id streamID, of observe.SubjectKey) {
	l := c.late.open[id]
	if l == nil {
		return
	}
	if !l.seen {
		c.lost.Add(of, "request_unpaired", l.left)
	}
	delete(c.late.open, id)
}

// sweepLate forgets late connections that are not tracked and whose end was not seen: their record was lost.
func (c *capture) sweepLate(now uint64) {
	for id, l := range c.late.open {
		if c.streams[id] != nil {
			continue
		}
		gone := c.slot(&segment{Series: l.series, Generation: l.generation}) == nil
		if quiet := now - min(now, l.began); gone && quiet > uint64(quietFor) || quiet > uint64(waitsFor) {
			delete(c.late.open, id)
		}
	}
}

// endTLS handles the end of a connection with TLS. It is opaque if no library was seen to open it, or if it was opened before the library was
// attached to and no request was captured since.
func (c *capture) endTLS(id streamID, p *segment) {
	l := c.late.open[id]
	if l == nil && p.Protocol == uint8(bindings.NetworkNetworkProtocolNETWORK_TLS) || l != nil && !l.seen {
		c.noteOpaque(p)
	}
	delete(c.late.open, id)
}

// lateExchange reports whether an exchange of a late connection is left out: its request began before all functions of the library were
// attached to, so its end may not have been captured. Those that are left out count as unpaired once the connection itself does not count as
// opaque; a response without a request always does.
func (c *capture) lateExchange(e *l7.Exchange) bool {
	l := c.current.late
	switch {
	case l == nil || l.seen:
		return false
	case !e.Request.Known: // its parser has counted it
		return true
	case e.Outcome != l7.Complete && !c.beganAttached(e):
		l.left++
		return true
	}
	l.seen = true
	c.lost.Add(c.current.connection.Subject, "request_unpaired", l.left)
	return false
}

// beganAttached reports whether a request began when the library of its process was attached to.
func (c *capture) beganAttached(e *l7.Exchange) bool {
	if c.attachedAt == nil {
		return false
	}
	at := c.attachedAt(c.current.connection.Subject.PID)
	return at != 0 && uint64(e.Request.First) > at
}
