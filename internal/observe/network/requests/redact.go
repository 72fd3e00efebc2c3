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
	// Query has the values of URL queries left out, and of parameters in their paths.
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
		to = appendRedacted(to, parts[i])
	}
	return to
}

// appendRedacted appends the name of a value, if it has one, and what is told in place of the value.
func appendRedacted(to, value []byte) []byte {
	if name, _, named := bytes.Cut(value, []byte("=")); named {
		to = append(append(to, name...), '=')
	}
	return append(to, redactedValue)
}

// appendPath appends a path in which the values of parameters (;jsessionid=…, by RFC 3986, section 3.3) are replaced, if that is
// asked for.
func (r *Redaction) appendPath(to, path []byte) []byte {
	for r.Query {
		begin := bytes.IndexByte(path, ';') + 1
		if begin == 0 {
			break
		}
		to, path = append(to, path[:begin]...), path[begin:]
		end := bytes.IndexAny(path, ";/")
		if end < 0 {
			end = len(path)
		}
		if end > 0 {
			to = appendRedacted(to, path[:end])
		}
		path = path[end:]
	}
	return append(to, path...)
}
