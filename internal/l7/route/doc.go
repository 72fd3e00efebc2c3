// SPDX-License-Identifier: Apache-2.0

// Package route makes routes of paths: what looks like an identifier becomes {id}, and the number of routes is bounded.
//
// A route that a framework knows is not on the wire. The route made here groups the requests of most services in the same way: numbers,
// UUIDs, long hexadecimal numbers, tokens, lists of numbers, e-mail addresses and names that end in one of them are identifiers, names with
// a year or a version in them are not. Parameters of a segment are left out, as the query is.
package route
