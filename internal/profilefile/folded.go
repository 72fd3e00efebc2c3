// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// separators are the characters that a name in a folded stack must not have.
var separators = strings.NewReplacer(";", ",", "\n", "?", "\r", "?")

// WriteFolded writes a line for each stack: the process and its functions from the root on, separated by semicolons, and
// the value. Kernel functions end in _[k]. Stacks that differ in lines or processes of one name only are one line.
func (b *Builder) WriteFolded(w io.Writer) error {
	lines := map[string]int64{}
	for _, s := range b.stacks {
		var line strings.Builder
		line.WriteString(separators.Replace(s.process.name))
		for _, n := range s.frames {
			line.WriteByte(';')
			line.WriteString(separators.Replace(b.frames[n].function))
			if b.frames[n].kernel {
				line.WriteString("_[k]")
			}
		}
		lines[line.String()] += s.value
	}
	buffered := bufio.NewWriter(w)
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(buffered, "%s %d\n", line, lines[line])
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing folded stacks: %w", err)
	}
	return nil
}
