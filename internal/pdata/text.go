// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// validText replaces what is not UTF-8, and control characters, by U+FFFD: names
// of threads, files and symbols are plain bytes to the kernel. One invalid byte in
// a protobuf string makes most receivers refuse the whole message; control
// characters do things to the terminal or the log that a consumer writes to.
func validText(s string) string { return validBut(s, unicode.IsControl) }

// validLines does the same with a text of several lines, whose ends and tabs stay.
func validLines(s string) string {
	return validBut(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' })
}

// validBut replaces what is not UTF-8 and what is bad.
func validBut(s string, bad func(rune) bool) string {
	if isPlain(s) || utf8.ValidString(s) && strings.IndexFunc(s, bad) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if bad(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// isPlain reports whether a text has nothing but printable ASCII, as nearly all have.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
