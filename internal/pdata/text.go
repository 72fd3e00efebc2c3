// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"strings"
	"unicode/utf8"
)

// validText replaces what is not UTF-8: names of threads, files and symbols
// are plain bytes to the kernel, but one invalid byte in a protobuf string
// makes most receivers refuse the whole message.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}
