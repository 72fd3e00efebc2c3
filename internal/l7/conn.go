// SPDX-License-Identifier: Apache-2.0

package l7

import "unsafe"

// State is what is known of a connection's protocol.
type State uint8

const (
	// Undecided is a connection whose protocol is not known yet.
	Undecided State = iota
	// Decided says that the protocol is known.
	Decided
	// GivenUp says that so many pieces began with nothing known that no more are looked at.
	GivenUp
)

// Conn is one connection of one process: it finds out the protocol and has it parsed.
type Conn struct {
	protocols []Protocol
	transport Transport
	role      Role // as it is known without looking at what is said
	sink      *Sink

	state   State
	spoken  Protocol
	parser  Parser
	looked  int
	against [2]bool      // by direction: a message was seen that the role does not send or get
	left    bool         // the last protocol has ended in another one, which is not known
	waiting [2]beginning // by direction
	fed     Piece        // the piece at hand: here it is not allocated each time
	end     End          // as far as it is known
	over    bool         // what was left was handed over before the connection was closed: nothing of it counts any more
}

// beginning is what a direction has said so far, where that is too little to know the protocol.
type beginning struct {
	data []byte
	// pieces are those that the data came in, with their times and what was lost before the first, without the data itself.
	pieces []Piece
}

const (
	// maxBeginning bounds what a protocol may ask to see: no beginning of a message is longer before it is known.
	maxBeginning = 512
	// maxBeginningPieces bounds the pieces of it that keep their own times: of a process that reads byte by byte, the rest share the times of one.
	maxBeginningPieces = 32
)

// NewConn makes a connection on which one of the protocols may be spoken. It may have been open for any time. The role is that of who
// connected or accepted, RoleUnknown where that is not known: a single piece that looks like another one's is not believed.
func NewConn(protocols []Protocol, transport Transport, role Role, sink *Sink) *Conn {
	return &Conn{protocols: protocols, transport: transport, role: role, sink: sink}
}

// State returns what is known of the protocol.
func (c *Conn) State() State { return c.state }

// Astray reports whether nothing of the connection is likely to be known any more: the protocol of none of many pieces was recognised. It may be
// another one from then on; the caller need not feed further pieces.
func (c *Conn) Astray() bool { return c.state == GivenUp }

// Protocol is the name of the protocol that is spoken, or "".
func (c *Conn) Protocol() string {
	if c.spoken == nil {
		return ""
	}
	return c.spoken.Name()
}

// Feed takes the next piece. Pieces of one direction come in the order of their bytes; those of both in about the order of their times.
func (c *Conn) Feed(piece Piece) {
	c.fed = piece
	c.feed(&c.fed)
	c.fed.Data = nil
}

func (c *Conn) feed(piece *Piece) {
	switch {
	case piece.Length <= 0, c.over:
	case c.parser == nil:
		c.classify(piece)
	default:
		c.parse(piece)
	}
}

// Ending notes that one end has ended the connection. What was received before may still be read, so that responses may follow. The
// first end that is known counts.
func (c *Conn) Ending(cause Cause, at int64) {
	if c.end.At == 0 {
		c.end.Cause, c.end.At = cause, at
	}
}

// GiveUp hands over what is left of a connection that one end has ended before the given monotonic time, in ns, but that was not closed
// since. What is transferred later is ignored: it would count twice.
func (c *Conn) GiveUp(before int64) {
	if c.over || c.end.At == 0 || c.end.At >= before {
		return
	}
	if c.parser != nil {
		c.parser.Close(&c.end)
		c.parser = nil
	}
	c.waiting, c.over = [2]beginning{}, true
}

// Expire reports what has been quiet since the given monotonic time, in ns, and has no end of its own.
func (c *Conn) Expire(before int64) {
	if c.parser != nil {
		c.parser.Expire(before)
	}
}

// Idle reports whether nothing is lost if the connection is forgotten, and met anew with its next piece.
func (c *Conn) Idle() bool {
	return !c.over && len(c.waiting[Read].data)+len(c.waiting[Write].data) == 0 && (c.parser == nil || c.parser.Idle())
}

// Settled reports whether nothing is lost if the connection is closed now: all that it has carried was handed over. In contrast to one
// that is idle, what is transferred later may count twice if the connection is followed again.
func (c *Conn) Settled() bool { return c.over || c.Idle() }

// Recalls reports whether what is said later refers to what was said at any time before.
func (c *Conn) Recalls() bool { return c.parser != nil && c.parser.Recalls() }

// Closed notes that the process has closed the connection at a monotonic time, in ns. Close follows.
func (c *Conn) Closed(at int64) { c.end.Closed = at }

// Close hands over what is left, as the connection ended or is forgotten. The Conn is not used after it.
func (c *Conn) Close() {
	if c.parser != nil {
		c.parser.Close(&c.end)
	}
}

// Held is the number of bytes of memory held for the connection, itself included.
func (c *Conn) Held() int {
	n := int(unsafe.Sizeof(*c)) + c.waiting[Read].held() + c.waiting[Write].held()
	if c.parser != nil {
		n += c.parser.Held()
	}
	return n
}

func (c *Conn) parse(piece *Piece) {
	if !c.parser.Feed(piece) {
		return
	}
	c.parser, c.spoken, c.state, c.looked, c.left = nil, nil, Undecided, 0, true
	if piece.Length > 0 {
		c.classify(piece)
	}
}

// classify looks at the beginning of a piece on a connection whose protocol is not known.
func (c *Conn) classify(piece *Piece) {
	if c.state == GivenUp {
		return
	}
	waiting := &c.waiting[piece.Direction]
	if piece.Lost != 0 {
		waiting.forget()
	}
	if len(waiting.data) > 0 {
		c.classifyJoined(waiting, piece)
		return
	}
	protocol, guess := c.guess(piece.Data, int64(len(piece.Data)) >= piece.Length)
	switch {
	case guess == No, guess.sure() && !c.believes(guess, piece.Direction):
		c.unknown()
	case guess == Perhaps:
		if int64(len(piece.Data)) == piece.Length && len(piece.Data) < maxBeginning {
			waiting.add(piece)
		}
	default:
		c.open(protocol, guess, piece.Direction)
		c.parse(piece)
	}
}

// classifyJoined looks at what a direction said before together with the piece.
func (c *Conn) classifyJoined(waiting *beginning, piece *Piece) {
	var joined [maxBeginning]byte
	n := copy(joined[:], waiting.data)
	n += copy(joined[n:], piece.Data)
	protocol, guess := c.guess(joined[:n], int64(n) >= int64(len(waiting.data))+piece.Length)
	switch {
	case guess.sure() && c.believes(guess, piece.Direction):
		c.open(protocol, guess, piece.Direction)
		c.replay(waiting)
		c.feed(piece)
	case guess == Perhaps && n < maxBeginning && int64(len(piece.Data)) == piece.Length:
		waiting.add(piece)
	default:
		// What was kept was none: the piece may begin a message by itself.
		waiting.forget()
		c.unknown()
		c.classify(piece)
	}
}

// replay has parsed what a direction said before the protocol was known.
func (c *Conn) replay(waiting *beginning) {
	data, pieces := waiting.data, waiting.pieces
	*waiting = beginning{}
	for i := range pieces {
		n := pieces[i].Length
		pieces[i].Data, data = data[:n], data[n:]
		c.feed(&pieces[i])
	}
}

// add keeps a piece that is too short to be recognised, all of whose bytes are known.
func (b *beginning) add(piece *Piece) {
	b.data = append(b.data, piece.Data...)
	if n := len(b.pieces); n == maxBeginningPieces {
		last := &b.pieces[n-1]
		packets := last.Wire.Packets + piece.Wire.Packets
		last.Length, last.Ended, last.Wire = last.Length+piece.Length, piece.Ended, piece.Wire
		last.Wire.Packets = packets
		return
	}
	b.pieces = append(b.pieces, *piece)
	b.pieces[len(b.pieces)-1].Data = nil
}

// forget drops what was kept: it was no beginning.
func (b *beginning) forget() { b.data, b.pieces = b.data[:0], b.pieces[:0] }

// held is the number of bytes of memory held.
func (b *beginning) held() int { return cap(b.data) + cap(b.pieces)*int(unsafe.Sizeof(Piece{})) }

// guess asks the protocols in their order. One that is sure wins over one that is not.
func (c *Conn) guess(first []byte, all bool) (Protocol, Guess) {
	guess := No
	for _, protocol := range c.protocols {
		switch g := protocol.Classify(first, all, c.transport); {
		case g.sure():
			return protocol, g
		case g == Perhaps:
			guess = Perhaps
		}
	}
	return nil, guess
}

// unknown counts a piece that is not recognised.
func (c *Conn) unknown() {
	most := c.sink.Limits.Undecided
	if c.left {
		most = c.sink.Limits.Left
	}
	if c.looked++; c.looked < most {
		return
	}
	c.state = GivenUp
	c.waiting = [2]beginning{}
	if !c.left {
		c.sink.Stats.GivenUp++
	}
}

// roleOf is the role of a process on whose connection a message was seen: who sends a request is its client.
func roleOf(guess Guess, direction Direction) Role {
	switch {
	case guess == Either:
		return RoleUnknown
	case (guess == Request) == (direction == Write):
		return RoleClient
	}
	return RoleServer
}

// believes reports whether a message may be what it looks like. Content may look like one that the other end would send; only where each
// end is seen to send what the other one should is it the one that accepted who asks, as through tunnels that are built from within.
func (c *Conn) believes(guess Guess, direction Direction) bool {
	role := roleOf(guess, direction)
	if c.transport == UDP || c.role == RoleUnknown || role == RoleUnknown || role == c.role {
		return true
	}
	c.against[direction] = true
	return c.against[direction.Other()]
}

// open begins to parse.
func (c *Conn) open(protocol Protocol, guess Guess, direction Direction) {
	role := roleOf(guess, direction)
	if role == RoleUnknown {
		role = c.role
	}
	c.parser, c.spoken, c.state, c.left = protocol.Open(role, c.transport, c.sink), protocol, Decided, false
	c.replay(&c.waiting[direction.Other()])
}
