// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"strings"
)

// field is one of a message's head with all of its values.
type field struct {
	name   string // in lower case
	values []string
}

// parseHead takes the lines of a head apart, in the order of the fields' first lines.
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

// valueOf is the value of a field, several joined by ", "; empty where it is not there.
func valueOf(fields []field, name string) string {
	for i := range fields {
		if fields[i].name == name {
			return strings.Join(fields[i].values, ", ")
		}
	}
	return ""
}

// urls are fields whose value is a URL (RFC 9110, 8.7, 10.1.3 and 10.2.2).
var urls = map[string]bool{"content-location": true, "location": true, "referer": true}

// values are a field's values as they are told: queries of URLs in them are as those of the
// request itself, and so are paths where a URL is all of the value.
func (r *Redaction) values(name string, values []string) []string {
	told := make([]string, len(values))
	for i, value := range values {
		switch {
		case r.header(name):
			told[i] = redactedHeader
		case r.Query && urls[name]:
			told[i] = userOf(r.queriesOf(r.pathOf(value)))
		case r.Query:
			told[i] = r.queriesOf(value)
		default:
			told[i] = value
		}
	}
	return told
}

// userOf replaces who a URL says that asks, and by which password (RFC 3986, 3.2.1).
func userOf(url string) string {
	begin := strings.Index(url, "//")
	if begin < 0 {
		return url
	}
	begin += len("//")
	end := begin + strings.IndexAny(url[begin:]+"/", "/?#")
	at := strings.LastIndexByte(url[begin:end], '@')
	if at < 0 {
		return url
	}
	return url[:begin] + "?" + url[begin+at:]
}

// pathOf replaces the values of parameters in the path of a URL.
func (r *Redaction) pathOf(url string) string {
	end := strings.IndexAny(url, "?#")
	if end < 0 {
		end = len(url)
	}
	if !strings.Contains(url[:end], ";") {
		return url
	}
	return string(append(r.appendPath(nil, []byte(url[:end])), url[end:]...))
}

// afterQuery are the characters at which the query of a URL in a text ends: none of them may be in one, as `,` `;` and `'` may by
// RFC 3986, section 3.4.
const afterQuery = "#\"<> \t"

// queriesOf replaces the values of queries of URLs in a text, and of fragments that have names and values as queries do, such as
// the #access_token= of RFC 6749, section 4.2.2.
func (r *Redaction) queriesOf(text string) string {
	var told []byte
	for {
		begin := strings.IndexAny(text, "?#")
		if begin < 0 {
			return string(append(told, text...))
		}
		rest := text[begin+1:]
		end := strings.IndexAny(rest, afterQuery)
		if end < 0 {
			end = len(rest)
		}
		told = append(told, text[:begin+1]...)
		if text[begin] == '?' || strings.Contains(rest[:end], "=") {
			told = r.appendQuery(told, []byte(rest[:end]))
		} else {
			told = append(told, rest[:end]...)
		}
		text = rest[end:]
	}
}
