// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
)

// TestAccounts compares the accounts of processes with the users that started them: whatever their id is in a user namespace, also in one
// within another, they have that of the user who created the outermost one.
func TestAccounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for processes of other users")
	}
	const user, first = 65533, 300000
	require.EqualValues(t, user, accountOf(t, sleeper(t, user)))
	require.EqualValues(t, 0, accountOf(t, sleeper(t, 0)))
	require.EqualValues(t, overflowID, accountOf(t, sleeper(t, overflowID)), "it is a user like others")

	created := inNamespaces(t, user, "unshare", "--user", "sleep", "60")
	require.EqualValues(t, user, accountOf(t, created))
	mapping := []byte(fmt.Sprintf("0 %d 1000", first))
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/uid_map", created), mapping, 0))
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/gid_map", created), mapping, 0))
	for _, id := range []int{5, 6} {
		entered := []string{"nsenter", "--user=/proc/" + strconv.Itoa(created) + "/ns/user", "--setuid", strconv.Itoa(id), "--setgid", "0"}
		subordinate := inNamespaces(t, 0, append(entered, "sleep", "60")...)
		require.EqualValues(t, first+id, ownerOf(t, subordinate))
		require.EqualValues(t, user, accountOf(t, subordinate))
		nested := inNamespaces(t, 0, append(entered, "unshare", "--user", "sleep", "60")...)
		require.EqualValues(t, user, accountOf(t, nested), "its namespace is of user %d", first+id)
	}
}

// TestAccountOfExitedProcess checks that what a process costs is not charged to another user after its exit.
func TestAccountOfExitedProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a process of another user")
	}
	const user = 65533
	s := newSymbolizer(t, Config{MapsShare: 1})
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	require.NoError(t, cmd.Start())
	a := openSpace(t, s, cmd.Process.Pid)
	d, err := s.proc.dir(model.ProcessID{PID: uint32(cmd.Process.Pid)})
	require.NoError(t, err)
	defer d.close()
	require.EqualValues(t, user, d.account())
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Equal(t, budget.Unknown, d.account())
	_, _, err = a.readRegionsOf(d)
	require.ErrorIs(t, err, ErrProcessExited)
	require.EqualValues(t, user, a.pace.LastUser(), "it is still known whose it was")
}

func accountOf(t *testing.T, pid int) budget.Account {
	t.Helper()
	p, err := newProcfs("")
	require.NoError(t, err)
	d, err := p.dir(model.ProcessID{PID: uint32(pid)})
	require.NoError(t, err)
	defer d.close()
	return d.account()
}

// ownerOf is the user of a process.
func ownerOf(t *testing.T, pid int) uint32 {
	t.Helper()
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Uid //nolint:errcheck // on Linux
}

// inNamespaces starts a command as a user that ends with executing sleep in a user namespace, and waits until it does.
func inNamespaces(t *testing.T, uid uint32, command ...string) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	require.Eventually(t, func() bool {
		name, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/comm")
		return err == nil && string(name) == "sleep\n"
	}, time.Minute, time.Millisecond)
	return cmd.Process.Pid
}
