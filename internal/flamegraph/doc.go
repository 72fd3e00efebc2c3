// SPDX-License-Identifier: Apache-2.0

// Package flamegraph draws OTLP profiles as a page that a browser opens from
// disk without network: [Graph] adds up samples, [Graph.Page] is the page,
// [Folder] keeps the last ones.
//
// The drawing is d3-flame-graph's (https://github.com/spiermar/d3-flame-graph)
// on d3 (https://d3js.org); both are embedded, with their licences, in assets.
// Names come from programs that may mean harm: they reach the page as JSON in an
// element that browsers do not run, and the page as text, never as HTML.
package flamegraph
