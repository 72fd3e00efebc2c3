// SPDX-License-Identifier: Apache-2.0

// Package dns parses DNS over UDP and TCP by RFC 1035, with EDNS by RFC 6891.
//
// A response is reported with the query of the same number and the same first question, whichever way either went: a socket may ask and
// answer. A query that is repeated while it waits is the same one. Of a message that is cut what lies before the cut is reported.
package dns
