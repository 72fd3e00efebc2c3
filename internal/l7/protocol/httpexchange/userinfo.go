// SPDX-License-Identifier: Apache-2.0

package httpexchange

import "strings"

// redactedUser replaces the userinfo of a URL, which is a name and often a password (RFC 3986, section 3.2.1).
const redactedUser = "?@"

// afterAuthority are the characters at which the authority of a URL in a text ends.
const afterAuthority = "/?# \t\"<>\\"

// withoutUsers replaces the userinfo of each URL in a text.
func withoutUsers(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "//")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString("//")
		end := strings.IndexAny(rest, afterAuthority)
		if end < 0 {
			end = len(rest)
		}
		out.WriteString(withoutUser(rest[:end]))
		text = rest[end:]
	}
}

// withoutUser replaces the userinfo of an authority.
func withoutUser(authority string) string {
	at := strings.LastIndexByte(authority, '@')
	if at <= 0 || strings.HasPrefix(authority[at-1:], redactedUser) {
		return authority
	}
	return redactedUser + authority[at+1:]
}

// namesHost reports whether a field of this name, in lower case, names a host without a scheme before it (RFC 9110, section 7.2,
// RFC 7239, and what proxies make of them).
func namesHost(field string) bool {
	switch field {
	case "host", "forwarded", "origin", "via", "x-forwarded-server":
		return true
	}
	return strings.HasSuffix(field, "-host") || strings.HasSuffix(field, "-authority")
}

// isURL reports whether the value of a field of this name, in lower case, is a URL or a path (RFC 9110, sections 8.7, 10.1.3 and
// 10.2.2; RFC 4918, section 10.3; RFC 6454; and what proxies and compilers add).
func isURL(field string) bool {
	switch field {
	case "content-location", "destination", "location", "origin", "referer", "sourcemap":
		return true
	}
	return strings.HasSuffix(field, "-url") || strings.HasSuffix(field, "-uri") || strings.HasSuffix(field, "-path")
}
