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

// TestBounds checks that neither a chatty test nor many tests grow the log without end.
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
