// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// program is the command with these arguments, not started.
func program(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func TestProgramEndsOnSignals(t *testing.T) {
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := program(t, "-dir", t.TempDir())
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			text, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, text, "waiting for the first profile in ")
			require.NoError(t, cmd.Process.Signal(sig))
			require.NoError(t, cmd.Wait(), "status 0")
		})
	}
}

func TestProgramStatus(t *testing.T) {
	for want, args := range map[int][]string{0: {"-h"}, 2: {"-n", "0"}} {
		out, err := program(t, args...).CombinedOutput()
		require.NotEmpty(t, out)
		var exit *exec.ExitError
		if want == 0 {
			require.NoError(t, err)
			continue
		}
		require.True(t, errors.As(err, &exit))
		require.Equal(t, want, exit.ExitCode())
		require.Contains(t, string(out), "ebpf-top: -n 0: must be 1 to 1000")
	}
}
