// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseKeys(t *testing.T) {
	for in, want := range map[string][]Key{
		"":                   nil,
		"q":                  {'q'},
		"1é\x03":             {'1', 'é', Interrupt},
		"\x1b":               {Escape},
		"\x1bx":              {Escape, 'x'},
		"\x1b[A\x1b[B":       {Up, Down},
		"\x1bOC\x1bOD":       {Right, Left},
		"\x1b[Z\t":           {BackTab, Tab},
		"\x1b[15~\x1b[1;5Cq": {'q'}, // F5, Ctrl-Right
		"\x1b[":              nil,
		"\x1bO":              nil,
	} {
		require.Equal(t, want, parseKeys([]byte(in)), "%q", in)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("q\x1b[A\x1bO\x1b[1;5C\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		require.LessOrEqual(t, len(parseKeys(in)), len(in))
	})
}

func TestEncode(t *testing.T) {
	frame := []Line{{"title", Bold}, {"äöü", Reverse}, {"a long line", Plain}, {"beyond", Red}}
	require.Equal(t, "\x1b[H\x1b[1mtitle\x1b[0m\x1b[K\r\n\x1b[7mäöü   \x1b[0m\r\na lon…\x1b[0m", encode(frame, 6, 3))
	require.Equal(t, "\x1b[Hx\x1b[0m\x1b[K\r\n\x1b[J", encode([]Line{{Text: "x"}}, 6, 3), "what stood below is erased")
}

func TestCut(t *testing.T) {
	for _, columns := range []int{1, 2, 5} {
		require.Equal(t, columns, utf8.RuneCountInString(Cut("äöüäöüäöü", columns)))
	}
	require.Equal(t, "äöü", Cut("äöü", 3))
	require.Equal(t, "äöü", Cut("äöü", 0))
}

// TestNoTerminal checks that a file is no terminal, and that frames can be drawn where keys cannot be read.
func TestNoTerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.False(t, Is(f))
	term, err := Open(f, filepath.Join(t.TempDir(), "absent"))
	require.NoError(t, err)
	require.Nil(t, term.Keys())
	columns, lines := term.Size()
	require.Equal(t, [2]int{80, 24}, [2]int{columns, lines})
	require.NoError(t, term.Draw([]Line{{Text: "x"}}))
	require.NoError(t, term.Draw([]Line{{Text: "x"}}), "not written again")
	term.Close()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "\x1b[?1049h\x1b[?25l"+"\x1b[Hx\x1b[0m\x1b[K\r\n\x1b[J"+"\x1b[?25h\x1b[?1049l", string(text))

	_, err = Open(f, path)
	require.ErrorContains(t, err, "setting the terminal to raw mode: ", "a device that is no terminal")
	require.NoError(t, f.Close())
	_, err = Open(f, filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "switching the terminal to its alternate screen: ")
}
