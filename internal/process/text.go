// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Bounds of what is kept of one process.
const (
	maxText      = 1024 // bytes of a name from the environment
	maxPath      = 4096 // bytes of a path: PATH_MAX of Linux
	maxArguments = 4096 // bytes of all arguments
	maxArgument  = 256  // number of arguments
)

// cut stands in the arguments for what was left out.
const cut = "…"

// cleanText makes a text of a process valid UTF-8.
func cleanText(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }

// bound cuts a text to at most n bytes, between two characters.
func bound(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// parseArguments parses /proc/PID/cmdline: arguments that end with a NUL. A
// process may have overwritten them with anything. When they are longer than
// maxArguments bytes or more than maxArgument, the middle is left out.
func parseArguments(data []byte) []string {
	data = bytes.TrimRight(data, "\x00")
	if len(data) == 0 {
		return nil
	}
	if len(data) <= maxArguments && bytes.Count(data, []byte{0}) < maxArgument {
		return splitArguments(nil, data)
	}
	half := min(maxArguments/2, len(data)/2)
	arguments := splitArguments(nil, data[:half])
	tail := splitArguments(nil, data[len(data)-half:])
	arguments = append(arguments[:min(len(arguments), maxArgument/2)], cut)
	return append(arguments, tail[max(0, len(tail)-maxArgument/2+1):]...)
}

func splitArguments(to []string, data []byte) []string {
	for word := range bytes.SplitSeq(data, []byte{0}) {
		to = append(to, cleanText(string(word)))
	}
	return to
}
