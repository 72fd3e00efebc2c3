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
func validText(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}
