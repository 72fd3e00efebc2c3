// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"bytes"
	"strings"
)

// field is one field of a message's head with all of its values.
type field struct {
	name   string // in lower case
	values []string
}

// parseHead parses the lines of a head. Fields are in the order of their first lines.
func parseHead(head []byte) []field {
	var fields []field
	at := map[string]int{}
	for line := range bytes.Lines(head) {
		name, value, found := strings.Cut(strings.TrimRight(string(line), "\r\n"), ":")
		name = strings.ToLower(strings.TrimRight(name, " \t"))
		if !found || name == "" {
			continue
		}
		// A NUL is no character of a field.
		value = strings.ReplaceAll(strings.Trim(value, " \t"), "\x00", "\ufffd")
		i, known := at[name]
		if !known {
			i = len(fields)
			at[name] = i
			fields = append(fields, field{name: name})
		}
		fields[i].values = append(fields[i].values, value)
	}
	return fields
}

// valueOf returns the value of a field, several joined by ", "; empty if there is no such field.
func valueOf(fields []field, name string) string {
	for i := range fields {
		if fields[i].name == name {
			return strings.Join(fields[i].values, ", ")
		}
	}
	return ""
}

// values returns the values of a field for export: queries of URLs in them are redacted as those of the request itself, and so are paths if
// the whole value is a URL. No value keeps a user's name or password.
func (r *redaction) values(name string, values []string) []string {
	out := make([]string, len(values))
	for i, value := range values {
		if r.header(name) {
			out[i] = redactedHeader
			continue
		}
		switch {
		case !r.Query:
		case name == "link":
			value = r.queriesOf(r.pathsOf(value))
		case isURL(name):
			value = r.queriesOf(r.pathOf(value))
		default:
			value = r.queriesOf(value)
		}
		if value = withoutUsers(value); namesHost(name) {
			value = withoutUser(value)
		}
		out[i] = value
	}
	return out
}

// pathOf replaces the values of parameters in the path of a URL.
func (r *redaction) pathOf(url string) string {
	end := strings.IndexAny(url, "?#")
	if end < 0 {
		end = len(url)
	}
	if !strings.Contains(url[:end], ";") {
		return url
	}
	return string(append(r.appendPath(nil, []byte(url[:end])), url[end:]...))
}

// pathsOf is pathOf for each of a list of URLs in angle brackets (RFC 8288, section 3).
func (r *redaction) pathsOf(list string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(list, "<")
		url, after, closed := strings.Cut(rest, ">")
		if !found || !closed {
			return out.String() + list
		}
		out.WriteString(before + "<" + r.pathOf(url) + ">")
		list = after
	}
}

// afterQuery are the characters at which the query of a URL in a text ends: none of them may be in a query, as `,` `;` and `'` may by RFC
// 3986, section 3.4.
const afterQuery = "#\"<> \t"

// queriesOf replaces the values of queries of URLs in a text, and of fragments that have names and values as queries do, such as the
// #access_token= of RFC 6749, section 4.2.2.
func (r *redaction) queriesOf(text string) string {
	var out []byte
	for {
		begin := strings.IndexAny(text, "?#")
		if begin < 0 {
			return string(append(out, text...))
		}
		rest := text[begin+1:]
		end := strings.IndexAny(rest, afterQuery)
		if end < 0 {
			end = len(rest)
		}
		out = append(out, text[:begin+1]...)
		if text[begin] == '?' || strings.Contains(rest[:end], "=") {
			out = r.appendQuery(out, []byte(rest[:end]))
		} else {
			out = append(out, rest[:end]...)
		}
		text = rest[end:]
	}
}
