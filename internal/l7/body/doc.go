// SPDX-License-Identifier: Apache-2.0

// Package body makes text of what a message carries: its Content-Encoding undone, its charset turned into UTF-8. What comes out is bounded
// whatever goes in, and of a body that was cut, as samples are, comes out what its beginning says.
package body
