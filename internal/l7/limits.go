// SPDX-License-Identifier: Apache-2.0

package l7

// Limits bound what one connection may hold.
type Limits struct {
	Line      int   // bytes of a line or record that spans pieces; longer ones are cut
	Values    int   // bytes of values kept of one message; longer ones are cut
	Head      int64 // bytes of a message's head; what is longer is no head
	Pipelined int   // requests that wait for a response; what is more is counted, not kept
	Streams   int   // where requests are distinguished by a number, and may be answered in any order
	Table     int   // size of what is kept of the fields that one direction of HTTP/2 refers to
	Quiet     int64 // ns without bytes, after which no response of before is on its way
	Undecided int   // pieces without a known beginning, after which a connection is given up
	Left      int   // the same after what was spoken has ended in another protocol, as after an upgrade
}

// DefaultLimits are those of connections by default: some KiB for a usual connection, 600 KiB for a hostile one of HTTP/1 and 2 MiB
// of HTTP/2.
func DefaultLimits() Limits {
	return Limits{Line: 8 << 10, Values: 8 << 10, Head: 1 << 20, Pipelined: 64, Streams: 256, Table: 16 << 10, Quiet: 1e9, Undecided: 64, Left: 8}
}

// Stats count what could not be reported as it was. All connections that share them add to them.
type Stats struct {
	Exchanges  uint64 // passed to the caller
	Invalid    uint64 // messages that are none by their protocol's rules
	Losses     uint64 // times that the next message, or frame, had to be looked for anew, as bytes were missing
	Unseen     uint64 // heads and trailers with fields that refer to what was not seen, or were too long
	Cut        uint64 // messages whose head or framing was cut
	Unkept     uint64 // requests over Limits.Pipelined or Limits.Streams
	Unpaired   uint64 // responses without a known request
	Unanswered uint64 // requests without their response, as bytes are missing
	GivenUp    uint64 // connections whose protocol stayed unknown
}
