// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

const (
	// wholeShare is the share of connections whose requests are captured, of all: parsed_streams of bpf/include/network_window.h.
	wholeShare = uint64(1) << 32
	// unparsedLevel is the level at which no requests are captured.
	unparsedLevel = 6
)

// Losses of connections without captured requests, to keep to a limit.
const (
	// connectionsUnparsed counts those connections, and each again whose requests were captured meanwhile.
	connectionsUnparsed = "connections_unparsed"
	// requestAbandoned counts requests that were under way on a connection when its requests were no longer captured.
	requestAbandoned = "request_abandoned"
)

// Levels returns the number of steps by which less can be captured. What connections transfer is counted at every level. If policies evaluate
// requests some are always captured.
func (o *Observer) Levels() int {
	switch {
	case !o.config.Requests, o.config.OnlyAnswered:
		return 0
	case o.config.Answered != nil:
		return unparsedLevel - 1
	}
	return unparsedLevel
}

// SetLevel halves with each level the share of connections whose requests are captured. At the last one none are. A connection that has left
// the share is given up with its next request; one that is in it again is followed from its next request on.
func (o *Observer) SetLevel(level int) error {
	o.level = min(level, o.Levels())
	if err := o.coll.Variables[bindings.NetworkCaptureVarParsedStreams].Set(shareAt(o.level)); err != nil {
		return fmt.Errorf("setting the share of connections with captured requests: %w", err)
	}
	return nil
}

// shareAt returns how many of 2^32 connections have their requests captured at a level.
func shareAt(level int) uint64 {
	if level >= unparsedLevel {
		return 0
	}
	return wholeShare >> level
}

// Effect describes what the observation does at its level.
func (o *Observer) Effect() string {
	switch {
	case !o.config.Requests:
		return "counts connections"
	case o.level == 0:
		return "captures the requests of all connections"
	case o.level >= unparsedLevel:
		return "counts connections and captures no requests but lookups by UDP"
	}
	return fmt.Sprintf("captures the requests of one in %d connections", 1<<o.level)
}

// leaveOut handles a connection whose requests are not captured from here on. The end of those under way is not captured.
func (c *capture) leaveOut(p *segment) {
	id := c.idOf(p)
	if s := c.streams[id]; s != nil {
		c.abandon(id, s, s.conn.Settled() || s.conn.Recalls(), requestAbandoned)
	}
	if p.Protocol != uint8(bindings.NetworkNetworkProtocolNETWORK_UNKNOWN) {
		c.carried.note(p.Series, p.Generation, p.Protocol)
	}
	c.lost.Add(c.connectionOf(p).Subject, connectionsUnparsed, 1)
}
