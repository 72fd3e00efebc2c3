// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"strings"
)

// Redaction says what of requests is never told.
type Redaction struct {
	// Headers are the names of headers whose values are left out, in any case.
	Headers []string
	// Query has the values of URL queries left out.
	Query bool
}

// What is told in place of what is left out.
const (
	redactedHeader = "[redacted]"
	redactedValue  = '?'
)

// header tells whether a header's value is left out.
func (r *Redaction) header(name string) bool {
	for _, h := range r.Headers {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// appendQuery appends a query whose values are replaced, if that is asked for. What has
// no name may be a value.
func (r *Redaction) appendQuery(to, query []byte) []byte {
	if !r.Query || len(query) == 0 {
		return append(to, query...)
	}
	for i, parts := 0, bytes.Split(query, []byte("&")); i < len(parts); i++ {
		if i > 0 {
			to = append(to, '&')
		}
		if name, _, named := bytes.Cut(parts[i], []byte("=")); named {
			to = append(append(to, name...), '=')
		}
		to = append(to, redactedValue)
	}
	return to
}
