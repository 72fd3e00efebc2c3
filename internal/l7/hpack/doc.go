// SPDX-License-Identifier: Apache-2.0

// Package hpack reads the fields of HTTP/2's header blocks (RFC 7541) for who may have come late or missed some.
//
// A sender names fields by their place in a table that grows with each block: newest first, the oldest thrown out. Whatever was thrown
// out, the table is always the beginning of the list of all fields ever added, newest first. So an observer who has seen the last n
// fields that were added knows places 1 to n, whatever the size of the table and whatever was there before, and nothing of the places
// behind them: those are reported as unknown, never as something else. After bytes of a block were missed, [Decoder.Forget] makes that n zero.
//
// The values of most fields are not wanted. Names that are wanted have a [Tag], also as Huffman codes, so that a name is looked up without
// decoding it, and of other fields only the lengths are read. Nothing is allocated but what the table grows by.
//
// Memory is bounded by [Limits], however large a table the two ends have agreed upon and however long the values are.
package hpack
