// SPDX-License-Identifier: Apache-2.0

// Package flamegraph draws OTLP profiles as a page that a browser opens from
// disk without network: [Graph] adds up the samples of one interval,
// [Graph.Page] is its page, [Folder] keeps the last pages and one that merges
// their intervals.
//
// Go bounds the data and writes it as columns of JSON; assets/*.js merges the
// intervals that the user selects and draws them on a canvas, because a DOM
// element per box takes seconds from some ten thousand boxes on.
// Names come from untrusted programs: they reach the page as JSON in an element
// that browsers do not run, and are shown as text, never as HTML.
package flamegraph
