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
	// Perhaps has too few bytes to decide.
	Perhaps
	// Request says that a request begins here.
	Request
	// Response says that a response begins here.
	Response
	// Either is a message of the protocol that either end may have sent.
	Either
)

// sure reports whether the protocol is known.
func (g Guess) sure() bool { return g == Request || g == Response || g == Either }

// Protocol knows one protocol's messages. It is shared by all connections.
type Protocol interface {
	// Name is the conventions' network.protocol.name.
	Name() string
	// Classify returns what begins with the first bytes of a piece; all is set if they are the whole piece.
	Classify(first []byte, all bool, transport Transport) Guess
	// Open makes a parser for one connection. The role is RoleUnknown where the guess was Either.
	Open(role Role, transport Transport, sink *Sink) Parser
}

// Sink receives what connections say.
type Sink struct {
	Limits   Limits
	Stats    *Stats
	Exchange func(*Exchange)
	// Contents has the content of messages kept; nil: no protocol keeps any.
	Contents *Contents
}

// Report hands over an exchange and counts it.
func (s *Sink) Report(e *Exchange) {
	s.Stats.Exchanges++
	if e.Outcome == Lost && e.Request.Known && !e.Response.Known {
		s.Stats.Unanswered++
	}
	s.Exchange(e)
}

// Parser follows one connection in one protocol.
type Parser interface {
	// Feed takes the next piece. It returns true when the connection speaks another protocol from there on: the piece is then cut to
	// what the parser did not consume.
	Feed(p *Piece) (left bool)
	// Expire reports what has been quiet since the given monotonic time, in ns, and has no end of its own.
	Expire(before int64)
	// Idle reports whether nothing is lost with the parser: no message is under way or waits for another one, and a new parser would report
	// what follows as this one does.
	Idle() bool
	// Recalls reports whether what is said later refers to what was said at any time before, so that a new parser would not know it.
	Recalls() bool
	// Close hands over what is left, as the connection ended. The parser is not used after it.
	Close(end *End)
	// Held is the number of bytes of memory held, the parser itself included.
	Held() int
}
