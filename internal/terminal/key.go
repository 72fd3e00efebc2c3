// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"unicode/utf8"
)

// Key is a character, or one of the named keys.
type Key rune

// Named keys, outside of Unicode.
const (
	Left Key = utf8.MaxRune + 1 + iota
	Right
	Up
	Down
	BackTab
	Escape
)

// Keys that are control characters.
const (
	Interrupt Key = 3 // Ctrl-C
	Tab       Key = '\t'
	Enter     Key = '\r'
)

// named has the sequences that terminals send, those of the application mode included.
var named = map[string]Key{
	"\x1b[D": Left, "\x1bOD": Left, "\x1b[C": Right, "\x1bOC": Right, "\x1b[A": Up, "\x1bOA": Up, "\x1b[B": Down, "\x1bOB": Down,
	"\x1b[Z": BackTab,
}

// parseKeys takes apart what was read at once. Sequences without a name are left out.
func parseKeys(in []byte) []Key {
	var out []Key
	for len(in) > 0 {
		if in[0] != 0x1b {
			r, n := utf8.DecodeRune(in)
			out = append(out, Key(r))
			in = in[n:]
			continue
		}
		n := sequenceLength(in)
		switch k, ok := named[string(in[:n])]; {
		case ok:
			out = append(out, k)
		case n == 1:
			out = append(out, Escape)
		}
		in = in[n:]
	}
	return out
}

// sequenceLength is the length of the control sequence that in begins with: ESC O and a character, or ESC [, parameters
// and a final byte of 0x40 to 0x7e.
func sequenceLength(in []byte) int {
	switch {
	case bytes.HasPrefix(in, []byte("\x1bO")):
		return min(3, len(in))
	case !bytes.HasPrefix(in, []byte("\x1b[")):
		return 1
	}
	for i := 2; i < len(in); i++ {
		if in[i] >= 0x40 && in[i] <= 0x7e {
			return i + 1
		}
	}
	return len(in)
}
