// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"math"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// endedFor is how long a connection that one end has ended may be idle, until a request that waits for a response there is counted as one
// without: its process may never close it. A client that has only shut down its sending direction may wait that long.
// alone may wait for that long.
const endedFor = 10 * time.Second

// causes are the ends that may end a connection first.
var causes = map[bindings.NetworkNetworkEnd]l7.Cause{
	bindings.NetworkNetworkEndNETWORK_END_LOCAL: l7.ClosedLocally, bindings.NetworkNetworkEndNETWORK_END_REMOTE: l7.ClosedRemotely,
	bindings.NetworkNetworkEndNETWORK_END_TIMEOUT: l7.TimedOut,
}

// end handles the end of a connection; s is nil if nothing of it was captured.
func (c *capture) end(id streamID, s *stream, p *segment) {
	closed := bindings.NetworkNetworkSegmentKind(p.Kind) == bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_CLOSED
	switch {
	case s != nil:
		if cause := causes[bindings.NetworkNetworkEnd(p.Position)]; !closed || cause != l7.CauseUnknown {
			s.conn.Ending(cause, int64(p.Began))
		}
		if closed {
			s.conn.Closed(int64(p.Began))
			c.remove(id, s)
			if s.late != nil {
				c.endTLS(id, p)
			} else {
				delete(c.late.open, id)
			}
		}
	case closed:
		c.endTLS(id, p)
	}
}

// giveUp ends a connection that one end has ended, and that has been idle for endedFor.
func (c *capture) giveUp(s *stream, now uint64) {
	if now-min(now, s.last) > uint64(c.endedFor) {
		c.sweeping = int64(now)
		s.conn.GiveUp(int64(now) - c.endedFor.Nanoseconds())
		c.sweeping = 0
	}
}

// giveUpAll ends all connections that one end has ended. How the others will end is unknown.
func (c *capture) giveUpAll() {
	for _, s := range c.streams {
		c.current = s
		s.conn.GiveUp(math.MaxInt64)
		c.attribute(s)
	}
}
