// SPDX-License-Identifier: Apache-2.0

package sigready

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHelperAsks asks for SIGINT when it can read a line, and ends by the signal.
func TestHelperAsks(t *testing.T) {
	if os.Getenv("SIGREADY_HELPER") == "" {
		t.Skip("is started by TestAsked")
	}
	_, err := os.Stdin.Read(make([]byte, 1))
	require.NoError(t, err)
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT)
	<-got
}

func TestAsked(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^TestHelperAsks$")
	cmd.Env = append(os.Environ(), "SIGREADY_HELPER=1")
	Prepare(cmd)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test failed
	require.Eventually(t, func() bool {          // the shell has run it
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
		return err == nil && path == self
	}, time.Minute, time.Millisecond)
	asked, err := Asked(cmd.Process.Pid)
	require.NoError(t, err)
	require.False(t, asked)
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		asked, err := Asked(cmd.Process.Pid)
		return err == nil && asked
	}, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait())
	_, err = Asked(cmd.Process.Pid)
	require.ErrorIs(t, err, os.ErrNotExist)
}
