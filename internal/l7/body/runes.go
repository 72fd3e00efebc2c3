// SPDX-License-Identifier: Apache-2.0

package body

import "unicode/utf8"

// WholeRunes leaves out a character at the end of a text that was cut.
func WholeRunes(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}
