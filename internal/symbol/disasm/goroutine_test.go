// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoroutineAt checks the offset of the goroutine that functions of Go 1.13 to 1.16 use: in a program, in one that C's linker has made and
// that has other thread-local variables, and in a position-independent one (PIE).
func TestGoroutineAt(t *testing.T) {
	for _, c := range []struct {
		name, code string
		want       int64
	}{
		{"program", "64 48 8b 0c 25 f8 ff ff ff 48 3b 61 10", -8},
		{"with C", "64 48 8b 0c 25 a0 ff ff ff 48 8d 44 24 d0", -0x60},
		{"anywhere", "48 c7 c1 f8 ff ff ff 64 48 8b 09 48 3b 61 10", -8},
		{"anywhere, with C", "48 c7 c1 78 ff ff ff 64 48 8b 09", -0x88},
	} {
		got, err := GoroutineAt(bytesOf(t, c.code))
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	for name, code := range map[string]string{
		"empty":                  "",
		"cut":                    "64 48 8b 0c 25 f8 ff ff",
		"cut, anywhere":          "48 c7 c1 f8 ff ff ff 64 48 8b",
		"a number":               "48 c7 c1 f8 ff ff ff 48 89 0c 24",
		"of Go 1.17":             "49 3b 66 10 76 03",
		"by the table (-shared)": "48 8b 0d 00 10 00 00 64 48 8b 09 48 3b 61 10",
	} {
		_, err := GoroutineAt(bytesOf(t, code))
		require.ErrorIs(t, err, errNoGoroutine, name)
	}
}
