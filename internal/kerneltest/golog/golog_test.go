// SPDX-License-Identifier: Apache-2.0

package golog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sample = `=== RUN   TestA
--- PASS: TestA (0.01s)
=== RUN   TestB
=== RUN   TestB/one
    b_test.go:12: no fentry on this kernel
=== RUN   TestB/two
    b_test.go:20: 
        	Error:      	Not equal
--- FAIL: TestB (0.20s)
    --- SKIP: TestB/one (0.10s)
    --- FAIL: TestB/two (0.10s)
=== RUN   TestC
panic: runtime error
FAIL`

func parse(text string) *Log {
	var l Log
	for line := range strings.SplitSeq(text, "\n") {
		l.Add(line)
	}
	return &l
}

func TestLog(t *testing.T) {
	for name, text := range map[string]string{"lf": sample, "crlf": strings.ReplaceAll(sample, "\n", "\r\n")} {
		t.Run(name, func(t *testing.T) {
			l := parse(text)
			require.Len(t, l.Tests, 5)
			require.Equal(t, 1, l.Count(Passed))
			require.Equal(t, 2, l.Count(Failed))
			require.Equal(t, 1, l.Count(Skipped))
			require.Equal(t, 1, l.Count(Unfinished))

			skipped := l.Tests[2]
			require.Equal(t, "TestB/one", skipped.Name)
			require.Equal(t, Skipped, skipped.Status)
			require.Equal(t, "no fentry on this kernel", skipped.Reason())

			crashed := l.Tests[4]
			require.Equal(t, "TestC", crashed.Name)
			require.Equal(t, []string{"panic: runtime error", "FAIL"}, crashed.Output)
		})
	}
}

func TestReasonOfSilentTest(t *testing.T) {
	l := parse("=== RUN   TestA\n--- SKIP: TestA (0.00s)")
	require.Equal(t, "no reason given", l.Tests[0].Reason())
}

// TestBounds holds that neither a chatty test nor many tests grow the log without end.
func TestBounds(t *testing.T) {
	var l Log
	l.Add("=== RUN   TestChatty")
	for range 3 * maxLines {
		l.Add("more")
	}
	l.Add("last")
	require.Len(t, l.Tests[0].Output, maxLines)
	require.Equal(t, "last", l.Tests[0].Reason())

	for i := range maxTests + 10 {
		l.Add(fmt.Sprintf("=== RUN   Test%d", i))
	}
	require.Len(t, l.Tests, maxTests)
}

func FuzzLog(f *testing.F) {
	f.Add(sample)
	f.Add("--- PASS: (0s)\n=== RUN   \n=== NAME  x")
	f.Fuzz(func(t *testing.T, text string) {
		l := parse(text)
		total := 0
		for _, s := range []Status{Passed, Failed, Skipped, Unfinished} {
			total += l.Count(s)
		}
		require.Equal(t, len(l.Tests), total)
		for _, test := range l.Tests {
			require.NotEmpty(t, test.Reason())
		}
	})
}

// TestAgain holds that a test which failed and passed when it ran once more is told so, and one that failed twice is a failure.
func TestAgain(t *testing.T) {
	var first, again Log
	w := NewWriter(&first)
	for _, part := range []string{"=== RUN   TestA\n    a.go:1: too", " late\n--- FAIL: TestA (1.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n    --- FAIL: TestB/x (0.00s)\n--- FAIL: TestB (0.50s)\n",
		"=== RUN   TestC\n--- PASS: TestC (0.25s)\nFAIL"} {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Len(t, part, n)
	}
	w.Flush()
	failed, whole := first.Failures()
	require.True(t, whole)
	require.Equal(t, []string{"TestA", "TestB"}, failed)

	for _, line := range []string{"=== RUN   TestA", "--- PASS: TestA (0.50s)", "=== RUN   TestB", "=== RUN   TestB/x", "    b.go:2: still", "    --- FAIL: TestB/x (0.00s)", "--- FAIL: TestB (0.50s)"} {
		again.Add(line)
	}
	first.Amend(&again)
	require.Equal(t, []int{2, 2}, []int{first.Count(Passed), first.Count(Failed)})
	require.True(t, first.Tests[0].Again)
	require.Equal(t, []string{"a.go:1: too late"}, first.Tests[0].Output)
	require.Equal(t, []string{"and once more:", "b.go:2: still"}, first.Tests[2].Output)
	require.False(t, first.Tests[3].Again)
	require.Equal(t, "0.25s", first.Tests[3].Took)

	first.Add("=== RUN   TestD")
	_, whole = first.Failures()
	require.False(t, whole, "one that did not end may have failed by it")
}
