// SPDX-License-Identifier: Apache-2.0

// Package terminal draws whole frames on a terminal and reads single keys from it.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is how a line looks.
type Style int

const (
	Plain Style = iota
	Bold
	Reverse
	Red
	Faint
)

// ANSI control sequences of ECMA-48, and the alternate screen of xterm.
const (
	home       = "\x1b[H"
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
	reset      = "\x1b[0m"
	enter      = "\x1b[?1049h\x1b[?25l"
	leave      = "\x1b[?25h\x1b[?1049l"
)

var sequences = map[Style]string{Bold: "\x1b[1m", Reverse: "\x1b[7m", Red: "\x1b[31m", Faint: "\x1b[2m"}

// Line is one line of a frame.
type Line struct {
	Text  string
	Style Style
}

// Terminal is a terminal in raw mode that shows its alternate screen. It must be closed: else the user's shell is left
// without echo.
type Terminal struct {
	out *os.File
	// in is the terminal's device, opened apart from the standard input so that a read can be ended by Close; nil: there
	// is none, and no keys are read.
	in    *os.File
	saved *term.State
	keys  chan Key
	drawn string
}

// Is reports whether f is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Open switches the terminal that out is to the alternate screen. Keys are read from device, usually /dev/tty; where that
// cannot be opened, there are none.
func Open(out *os.File, device string) (*Terminal, error) {
	t := &Terminal{out: out, keys: make(chan Key)}
	if in, err := os.Open(device); err == nil {
		if err := t.raw(in); err != nil {
			_ = in.Close() // read only
			return nil, err
		}
		go t.read()
	}
	if _, err := io.WriteString(out, enter); err != nil {
		t.Close()
		return nil, fmt.Errorf("switching the terminal to its alternate screen: %w", err)
	}
	return t, nil
}

// raw takes in, whose keys come at once and without echo from then on.
func (t *Terminal) raw(in *os.File) error {
	connection, err := in.SyscallConn() // Fd would make reads of it blocking, which Close could not end
	if err != nil {
		return fmt.Errorf("accessing the terminal: %w", err)
	}
	var failed error
	if err := connection.Control(func(fd uintptr) { t.saved, failed = term.MakeRaw(int(fd)) }); err != nil {
		failed = err
	}
	if failed != nil {
		return fmt.Errorf("setting the terminal to raw mode: %w", failed)
	}
	t.in = in
	return nil
}

// read passes keys on until the terminal is closed or gone.
func (t *Terminal) read() {
	defer close(t.keys)
	buffer := make([]byte, 64)
	for {
		n, err := t.in.Read(buffer)
		for _, k := range parseKeys(buffer[:n]) {
			t.keys <- k // Close drains them
		}
		if err != nil {
			return
		}
	}
}

// Keys has the keys that are pressed, and is closed when there can be none any more. It is nil where keys are not read.
func (t *Terminal) Keys() <-chan Key {
	if t.in == nil {
		return nil
	}
	return t.keys
}

// Size returns columns and lines, 80 by 24 where the terminal does not know.
func (t *Terminal) Size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(t.out.Fd()))
	if err != nil || columns == 0 || lines == 0 {
		return 80, 24
	}
	return columns, lines
}

// Draw shows a frame; what does not fit is cut. A frame that is shown already costs nothing.
func (t *Terminal) Draw(frame []Line) error {
	columns, lines := t.Size()
	text := encode(frame, columns, lines)
	if text == t.drawn {
		return nil
	}
	if _, err := io.WriteString(t.out, text); err != nil {
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	t.drawn = text
	return nil
}

// encode is a frame as the terminal takes it. In raw mode a line feed does not return to the first column.
func encode(frame []Line, columns, lines int) string {
	var b strings.Builder
	b.WriteString(home)
	for i, l := range frame[:min(len(frame), lines)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(sequences[l.Style])
		text := Cut(l.Text, columns)
		if l.Style == Reverse { // over the whole width
			text += strings.Repeat(" ", columns-utf8.RuneCountInString(text))
		}
		b.WriteString(text)
		b.WriteString(reset)
		if utf8.RuneCountInString(text) < columns { // in the last column the cursor stays on what this would erase
			b.WriteString(eraseLine)
		}
	}
	if len(frame) < lines {
		b.WriteString("\r\n")
		b.WriteString(eraseBelow)
	}
	return b.String()
}

// Close restores the terminal as it was.
func (t *Terminal) Close() {
	if t.in != nil {
		_ = t.in.Close() // ends read
		for range t.keys {
		}
	}
	_, _ = io.WriteString(t.out, leave) // a terminal that is gone needs no restoring
	if t.saved != nil {
		_ = term.Restore(int(t.out.Fd()), t.saved)
	}
}

// Cut shortens s to columns, 0 for as long as it is.
func Cut(s string, columns int) string {
	if columns <= 0 || utf8.RuneCountInString(s) <= columns {
		return s
	}
	runes := []rune(s)
	return string(runes[:columns-1]) + "…"
}
