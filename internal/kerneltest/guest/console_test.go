// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// console writes what init would, and test output between.
func console(t testing.TB, exit int, end bool) string {
	var b bytes.Buffer
	b.WriteString("SeaBIOS\r\n")
	require.NoError(t, AnnounceKernel(&b, "6.1.0-56-cloud-amd64"))
	require.NoError(t, AnnounceBegin(&b, "internal/kernel"))
	b.WriteString("=== RUN   TestA\r\n--- PASS: TestA (0.00s)\r\n=== RUN   TestB\r\n    b.go:1: no BTF\r\n--- SKIP: TestB (0.00s)\r\nunfinished line")
	require.NoError(t, AnnounceEnd(&b, "internal/kernel", exit))
	b.WriteString("[ 1.0] kernel message\n")
	if end {
		require.NoError(t, AnnounceResult(&b, 1, 0))
	}
	return b.String()
}

func TestReadConsole(t *testing.T) {
	booted := 0
	res, err := ReadConsole(strings.NewReader(console(t, 0, true)), func() { booted++ })
	require.Equal(t, 1, booted)
	require.NoError(t, err)
	require.Equal(t, "6.1.0-56-cloud-amd64", res.Release)
	require.True(t, res.Finished)
	require.Len(t, res.Packages, 1)
	require.Equal(t, "internal/kernel", res.Packages[0].Name)
	require.Equal(t, 0, res.Packages[0].Exit)
	require.Equal(t, "no BTF", res.Packages[0].Log.Tests[1].Reason())
	passed, failed, skipped := res.Counts()
	require.Equal(t, []int{1, 0, 1}, []int{passed, failed, skipped})
	require.True(t, res.OK(1))
	require.False(t, res.OK(2), "a package that was to run is missing")
}

func TestConsoleOfBadRuns(t *testing.T) {
	for name, text := range map[string]string{
		"test binary failed":  console(t, 1, true),
		"machine went away":   console(t, 0, false),
		"nothing came":        "",
		"no test at all":      "\nKERNELTEST BEGIN a\nKERNELTEST END a exit=0\nKERNELTEST RESULT ok=1 failed=0\n",
		"binary did not end":  "\nKERNELTEST BEGIN a\n=== RUN TestA\n--- PASS: TestA (0.00s)\nKERNELTEST RESULT ok=1 failed=0\n",
		"test did not end":    "\nKERNELTEST BEGIN a\n=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\nKERNELTEST END a exit=0\nKERNELTEST RESULT ok=1 failed=0\n",
		"exit code unreadble": "\nKERNELTEST BEGIN a\n=== RUN   TestA\n--- PASS: TestA (0.00s)\nKERNELTEST END a exit=x\nKERNELTEST RESULT ok=1 failed=0\n",
	} {
		t.Run(name, func(t *testing.T) {
			res, err := ReadConsole(strings.NewReader(text), func() {})
			require.NoError(t, err)
			require.False(t, res.OK(1))
		})
	}
}

func TestConsoleReadError(t *testing.T) {
	broken := errors.New("pipe broke")
	res, err := ReadConsole(io.MultiReader(strings.NewReader("KERNELTEST KERNEL 7.2\n"), iotest.ErrReader(broken)), func() {})
	require.ErrorIs(t, err, broken)
	require.Equal(t, "7.2", res.Release)
}

// TestConsoleBounds checks that endless lines and endless output do not pile up.
func TestConsoleBounds(t *testing.T) {
	text := strings.Repeat("x", 3*maxLine) + "\n" + strings.Repeat("y\n", 10*tailLines) + "KERNELTEST KERNEL 5.10\n"
	res, err := ReadConsole(strings.NewReader(text), func() {})
	require.NoError(t, err)
	require.Len(t, res.Tail, tailLines)
	require.Equal(t, "5.10", res.Release)
}

func FuzzReadConsole(f *testing.F) {
	f.Add(console(f, 0, true))
	f.Add("KERNELTEST END \nKERNELTEST BEGIN \nKERNELTEST END exit=")
	f.Fuzz(func(t *testing.T, text string) {
		res, err := ReadConsole(strings.NewReader(text), func() {})
		require.NoError(t, err)
		require.LessOrEqual(t, len(res.Tail), tailLines)
		res.OK(1)
	})
}
