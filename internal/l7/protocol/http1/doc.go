// SPDX-License-Identifier: Apache-2.0

// Package http1 parses HTTP/1.0 and HTTP/1.1 by RFC 9110 and RFC 9112.
//
// Each direction is read line by line: only fields that are wanted and those that define where a message ends are read, and
// of bodies only the length, so that a body of which nothing else is known costs nothing for its bytes. Requests wait for their
// responses in order. Where bytes are missing a direction looks for the next message at the beginning of a piece, and a response is reported
// with a request only if nothing that was lost could have come between them:
//
//   - it does not begin before the request does;
//   - no response was lost since the request began;
//   - where requests are pipelined, nothing was lost since the connection was quiet.
//
// That a client pipelines is known once it was seen to; what is lost of the very first such requests is not noticed.
//
// A message whose end cannot be found (its head is cut, or the sizes of its chunks are unknown) ends where the next one of either
// direction begins.
package http1
