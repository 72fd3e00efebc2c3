// SPDX-License-Identifier: Apache-2.0

package l7

// Role is which end of a connection the observed process is.
type Role uint8

// Roles of a process.
const (
	RoleUnknown Role = iota
	RoleClient
	RoleServer
	// Roles is the number of roles.
	Roles = iota
)

// RequestDirection is the direction of requests: servers read them, clients write them.
func (r Role) RequestDirection() Direction {
	if r == RoleServer {
		return Read
	}
	return Write
}

// String is the role as telemetry names it.
func (r Role) String() string {
	switch r {
	case RoleClient:
		return "client"
	case RoleServer:
		return "server"
	}
	return "unknown"
}

// Outcome is how an exchange ended.
type Outcome uint8

const (
	// Complete says that the request was answered.
	Complete Outcome = iota
	// Aborted says that the connection ended within the request or the response.
	Aborted
	// Unanswered: the connection or the stream ended without a response.
	Unanswered
	// Lost: bytes are missing, so that it is unknown which response was the request's.
	Lost
)

// Values of Exchange.ErrorType in addition to the statuses of a protocol.
const (
	// ErrorAborted: the connection or the stream ended within the request or the response.
	ErrorAborted = "aborted"
	// ErrorTimeout: this client ended it while it waited, or the kernel gave the connection up.
	ErrorTimeout = "timeout"
	// ErrorClientClosed: the client ended it while the server worked on the response. Of a server alone.
	ErrorClientClosed = "client_closed"
	// ErrorNoResponse: it ended without a response in any other way.
	ErrorNoResponse = "no_response"
)

// ErrorOfUnanswered is the error type of a request without a response, by which end ended what it was sent on.
func ErrorOfUnanswered(role Role, cause Cause) string {
	switch {
	case cause.GaveUp(role) && role == RoleServer:
		return ErrorClientClosed
	case cause.GaveUp(role), cause == TimedOut:
		return ErrorTimeout
	}
	return ErrorNoResponse
}

// Unknown is an unknown size.
const Unknown int64 = -1

// Side is the request's or the response's part of an exchange.
type Side struct {
	Known bool // it was seen; otherwise all else is zero
	// Cut is set where bytes of it are missing, or refer to what was not seen: values may be missing or short.
	Cut bool
	// Ended says that its end was seen, so that Last and Whole are right.
	Ended bool

	First, Last int64  // monotonic time of its first and last byte, in ns; First is 0 where its beginning was not seen
	Position    uint32 // of its first byte, as [Piece] has it; 0 where it is not known
	Body        int64  // bytes of the body as transferred, without its framing, or Unknown
	Whole       int64  // bytes of the whole message, or Unknown

	Content *Content // nil where it was not kept
}

// Exchange is a request and its response. It is valid, with all that it refers to, until the function that was given it returns.
type Exchange struct {
	Protocol          string // "http", "dns", by the conventions' network.protocol.name
	Role              Role
	Request, Response Side
	Outcome           Outcome
	// Tag is that of a [Skipped] request, 0 of captured ones.
	Tag uint64
	// ErrorType is the conventions' error.type: a status that is an error for this role, one of the values above, or nothing.
	ErrorType string
	// Ended is when a request that has no response to its end was given up: the end of the connection or the reset of the stream,
	// in monotonic ns; 0 where it is not known, or the response is complete.
	Ended int64

	Operation Operation // what was asked for and what came of it
}

// Duration is the time from the request's first byte to the response's last one, or until the request was given up, in ns; ok
// reports whether it is known.
func (e *Exchange) Duration() (ns int64, ok bool) {
	switch {
	case !e.Request.Known || e.Request.First == 0:
	case e.Response.Ended:
		return e.Response.Last - e.Request.First, true
	case e.Ended != 0:
		return e.Ended - e.Request.First, true
	}
	return 0, false
}

// UnknownText stands for a text that was sent as a reference to an earlier message that was not captured, such as a path of HTTP/2 or a
// statement that was prepared before.
const UnknownText = "*"

// Sizes returns the sizes of the request's body, the response's body, and the whole messages, as far as they are known.
func (e *Exchange) Sizes() [4]int64 {
	all := [4]int64{e.Request.Body, e.Response.Body, e.Request.Whole, e.Response.Whole}
	for i, side := range [4]*Side{&e.Request, &e.Response, &e.Request, &e.Response} {
		if !side.Known || !side.Ended || all[i] < 0 {
			all[i] = Unknown
		}
	}
	return all
}
