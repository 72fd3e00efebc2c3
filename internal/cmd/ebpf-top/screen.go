// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// ANSI control sequences of ECMA-48: cursor home, erase to the end of the line,
// erase to the end of the screen, erase the whole screen.
const (
	ansiHome     = "\x1b[H"
	ansiLineEnd  = "\x1b[K"
	ansiBelow    = "\x1b[J"
	ansiEraseAll = "\x1b[2J"
)

// screen writes lists: in place on a terminal, one after the other elsewhere.
type screen struct {
	out io.Writer
	// size returns the columns and lines of the terminal; ok is false when
	// there is none.
	size func() (columns, lines int, ok bool)
	// drawn is set once the terminal has been cleared.
	drawn bool
}

func newScreen(f *os.File) *screen {
	return &screen{out: f, size: func() (int, int, bool) { return terminalSize(f) }}
}

// note writes one line below what is there.
func (s *screen) note(text string) error {
	columns, _, _ := s.size()
	return s.write(cut(text, columns) + "\n")
}

// list writes the hottest functions of t, and the footer if there is one.
func (s *screen) list(t *top, rows int, byTotal bool, footer string) error {
	columns, lines, terminal := s.size()
	var last []string
	if footer != "" {
		last = []string{footer}
	}
	if !terminal {
		return s.write(strings.Join(append(format(t, rows, byTotal, 0), last...), "\n") + "\n\n")
	}
	// One line is left for a note, one for the cursor; in the last column, the
	// cursor stays on what an erasure would take away.
	columns = max(1, columns-1)
	text := format(t, max(1, min(rows, lines-headerLines-len(last)-2)), byTotal, columns)
	for _, line := range last {
		text = append(text, cut(line, columns))
	}
	start := ansiHome
	if !s.drawn {
		s.drawn = true
		start = ansiEraseAll + ansiHome
	}
	return s.write(start + strings.Join(text, ansiLineEnd+"\n") + ansiLineEnd + "\n" + ansiBelow)
}

func (s *screen) write(text string) error {
	if _, err := io.WriteString(s.out, text); err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	return nil
}
