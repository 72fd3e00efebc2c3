// SPDX-License-Identifier: Apache-2.0

// Package l7 turns what the two ends of a connection read and write into exchanges: requests with their responses, sizes and times.
//
// A [Conn] is one connection as one process has it. It is given [Piece] after [Piece], finds out by their first bytes which of the
// given protocols is spoken, and has a [Parser] of that protocol pass each [Exchange] to the caller's function. A protocol is a
// folder below protocol/; it has the pieces of each direction put together again by a [Stream] and keeps what waits for its answer in
// a [Queue].
//
// Nothing here trusts what it reads: memory is bounded by [Limits] for each connection, and what is lost, cut or invalid ends in a
// mark on the exchange and in [Stats], never in a request that is paired with the response of another. On the common path nothing is
// allocated, so what an Exchange refers to is valid only until the function that was given it returns.
//
// A Conn is used by one goroutine at a time.
package l7
