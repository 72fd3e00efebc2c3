// SPDX-License-Identifier: Apache-2.0

package l7

// Transport is what carries a connection's bytes.
type Transport uint8

// Transports. Each piece of a datagram transport is one datagram.
const (
	TCP Transport = iota
	UDP
)

// Guess is what a protocol makes of the first bytes of a piece.
type Guess uint8

const (
	// No says that no message of the protocol begins so.
	No Guess = iota
	// Perhaps says that there are too few bytes to tell.
	Perhaps
	// Request says that a request begins here.
	Request
	// Response says that a response begins here.
	Response
	// Either says that the protocol is spoken and that nothing here tells by which end.
	Either
)

// sure tells whether the protocol is known.
func (g Guess) sure() bool { return g == Request || g == Response || g == Either }

// Protocol knows one protocol's messages. It is shared by all connections.
type Protocol interface {
	// Name is the conventions' network.protocol.name.
	Name() string
	// Classify tells what begins with the first bytes of a piece; all says that they are the whole piece.
	Classify(first []byte, all bool, transport Transport) Guess
	// Open makes a parser for one connection. The role is RoleUnknown where the guess was Either.
	Open(role Role, transport Transport, sink *Sink) Parser
}

// Sink is who is told what connections say.
type Sink struct {
	Limits   Limits
	Stats    *Stats
	Exchange func(*Exchange)
	// Contents has the content of messages kept; nil: no protocol keeps any.
	Contents *Contents
}

// Tell hands over an exchange and counts it.
func (s *Sink) Tell(e *Exchange) {
	s.Stats.Exchanges++
	s.Exchange(e)
}

// Parser follows one connection in one protocol.
type Parser interface {
	// Feed takes the next piece. It returns true when the connection speaks another protocol from there on: the piece is then cut to
	// what the parser did not consume.
	Feed(p *Piece) (left bool)
	// Expire tells what has been quiet since the given monotonic time, in ns, and has no end of its own.
	Expire(before int64)
	// Idle tells whether nothing is lost with the parser: no message is under way or waits for another one, and a new parser would tell
	// what follows as this one does.
	Idle() bool
	// Recalls tells whether what is said later refers to what was said at any time before, so that a new parser would not know it.
	Recalls() bool
	// Close tells what is left, as the connection ended.
	Close()
	// Held is the number of bytes of memory held, the parser itself included.
	Held() int
}
