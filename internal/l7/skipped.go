// SPDX-License-Identifier: Apache-2.0

package l7

// Skipped is a request that was not captured although its response may be. Its method is HEAD or another one, and it is otherwise unknown.
type Skipped struct {
	Head bool
	// Tag is what the caller knows of the request, as [Exchange].Tag of its exchange.
	Tag uint64
}

// Skipper is a [Parser] that pairs skipped requests with their responses.
type Skipper interface {
	// Skip takes a skipped request in the place of its bytes, of which the segment has none.
	Skip(p *Piece, request Skipped)
}

// Skip takes a skipped request. The segment has its direction, its times and what was lost before it. It is ignored if the protocol of the
// connection is known and has no [Skipper].
func (c *Conn) Skip(piece Piece, request Skipped) {
	if c.over || c.parser == nil && !c.openSkipper(piece.Direction) {
		return
	}
	if parser, ok := c.parser.(Skipper); ok {
		c.fed = piece
		parser.Skip(&c.fed, request)
		c.fed.Data = nil
	}
}

// openSkipper begins to parse the first protocol that has a [Skipper].
func (c *Conn) openSkipper(direction Direction) bool {
	if c.state == GivenUp || !c.believes(Request, direction) {
		return false
	}
	for _, protocol := range c.protocols {
		if _, ok := protocol.Open(RoleUnknown, c.transport, c.sink).(Skipper); ok {
			c.waiting[direction].forget()
			c.open(protocol, Request, direction)
			return true
		}
	}
	return false
}
