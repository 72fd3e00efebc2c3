// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// seconds is the time in a line of progress.
var seconds = regexp.MustCompile(`, [0-9]+ s`)

// TestBuildReportsProgress holds what a build prints, with a go that lists four packages to compile, and compiles three of
// them before it fails.
func TestBuildReportsProgress(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "go")
	require.NoError(t, os.WriteFile(fake, []byte(`#!/bin/bash
if [ "$1" = list ]; then
  echo "go: downloading example.com/a v1.0.0" >&2
  printf '%s\n' errors fmt example.com/a example.com/b
  exit 0
fi
echo "$*" >"$(dirname "$0")/arguments"
printf '%s\n' errors fmt example.com/a "# example.com/b" "b.go:1:1: wrong" >&2
exit "$STATUS"
`), 0o700))
	for status, want := range map[string]string{"0": "", "7": "exit status 7"} {
		build := exec.Command(root+"/internal/tools/build.sh", "building x", "folder", "out", ".")
		build.Env = append(os.Environ(), "GO="+fake, "GO_BUILD_FLAGS=-trimpath -ldflags=-s", "STATUS="+status)
		out, err := build.Output()
		if want != "" {
			require.EqualError(t, err, want)
			require.Equal(t, "# example.com/b\nb.go:1:1: wrong\n", string(err.(*exec.ExitError).Stderr), "what go says of faults")
		} else {
			require.NoError(t, err)
		}
		// A slow build has more lines, one every ten seconds.
		require.Regexp(t, `^make: building x\n(make: 1 modules downloaded\n)+(make: compiled [1-3] of 4 packages \([0-9]+ %\)\n)*make: compiled 3 of 4 packages \(75 %\)\n`+
			`(make: done in [0-9]+ s: building x\n)?$`, seconds.ReplaceAllString(string(out), ""))
	}
	arguments, err := os.ReadFile(filepath.Join(filepath.Dir(fake), "arguments"))
	require.NoError(t, err)
	require.Equal(t, "build -C folder -trimpath -ldflags=-s -v -o out .\n", string(arguments))
}
