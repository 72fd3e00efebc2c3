// SPDX-License-Identifier: Apache-2.0

// Package http2 parses HTTP/2 by RFC 9113, with its header blocks by RFC 7541, and what gRPC puts into it.
//
// Each direction is read frame by frame. Of DATA only the length is needed, so that a frame of which nothing is known but its head costs
// nothing for its bytes, and where the next one begins is known still. Where the head of a frame is among missing bytes, the
// direction looks for another in the pieces that follow: for a frame that keeps to all rules and is followed by such, or ends with its
// piece. A body that itself contains frames of HTTP/2 can mislead it then, and only then.
//
// Requests and responses are distinguished by streams, so that a loss does not put the order of responses in doubt. A message of which bytes
// may be missing says so; its sizes are not reported, and its end is the connection's or that of its quiet. Fields that refer to what was not
// seen, on a connection that was discovered late or after a loss, are reported as unknown: see package hpack.
//
// Who is the client is known from the preface or from the first fields that only requests or only responses have.
package http2
