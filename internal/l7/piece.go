// SPDX-License-Identifier: Apache-2.0

package l7

// Direction is the way that bytes went, seen from the observed process.
type Direction uint8

// Directions of a piece.
const (
	Read Direction = iota
	Write
)

// Other is the opposite direction.
func (d Direction) Other() Direction { return d ^ 1 }

// LostUnknown is a Piece's Lost where the number of missing bytes is unknown.
const LostUnknown int64 = -1

// Piece is what one call read from or wrote to a connection, in the order of the calls of its direction.
type Piece struct {
	Direction    Direction
	Began, Ended int64  // monotonic time of the call, in ns
	Length       int64  // bytes that the call transferred
	Data         []byte // the first of them, at most Length; valid until the call that takes the piece returns

	// Lost says how many bytes of this direction are missing right before the piece, or LostUnknown.
	Lost int64
	// LostAt is when the last of the missing bytes were transferred, in monotonic ns; 0 where it is not known. With it, a request that
	// began after the loss is known to be unharmed by it.
	LostAt int64

	// Position is where its first byte is in its direction of the connection, the same at both ends: TCP's sequence number, or within TLS the
	// bytes of plaintext that the library has transferred before, and one more. 0 where it is not known.
	Position uint32

	Wire Wire // what the transport did for the call
}

// Wire is what TCP did for a call. The zero value knows nothing.
type Wire struct {
	Counted bool
	Packets int64 // segments with data that were sent, or received, since the call before in this direction, where they were counted
	RTT     int64 // the smoothed round-trip time by then, in ns; 0: it is not known
}

// First is the time of the piece's first byte, in monotonic ns: a read has it when it returns, a write gives it away as it is called.
func (p *Piece) First() int64 {
	if p.Direction == Read {
		return p.Ended
	}
	return p.Began
}
