// SPDX-License-Identifier: Apache-2.0

package l7

// Redaction configures what of exchanges is never exported. User names and passwords never are, whatever the configuration.
type Redaction struct {
	// Headers are the names of headers whose values are redacted, in any case. A name that begins or ends with * matches all names that end
	// or begin with the rest.
	Headers []string
	// Query redacts values in queries: of URLs, of parameters in their paths, and literals in statements.
	Query bool
}
