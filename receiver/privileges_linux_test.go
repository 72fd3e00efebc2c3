// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package receiver

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// unprivileged is the environment variable that makes the test binary, started once more, the process without privileges.
const unprivileged = "EBPFRECEIVER_TEST_UNPRIVILEGED"

// TestWithoutPrivileges checks that the receiver starts, says for good what it lacks, and stops.
func TestWithoutPrivileges(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv(unprivileged) != "" {
		withoutPrivileges(t)
		return
	}
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "unprivileged")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(dir+"/receiver.test", self, 0o755))
	cmd := exec.Command(dir+"/receiver.test", "-test.run=^TestWithoutPrivileges$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), unprivileged+"=1", "GOCOVERDIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestWithoutPrivileges")
}

func withoutPrivileges(t *testing.T) {
	r := newProfiles(t, createDefaultConfig())
	first, second := &statusHost{}, &statusHost{}
	require.NoError(t, r.Start(t.Context(), first))
	require.NoError(t, r.Start(t.Context(), second), "the second pipeline")
	awaitStart(r)
	for _, host := range []*statusHost{first, second} {
		require.Len(t, host.events, 1)
		require.Equal(t, componentstatus.StatusPermanentError, host.events[0].Status())
		text := host.events[0].Err().Error()
		for _, part := range []string{
			"missing CAP_BPF (to load BPF programs and create their maps), CAP_PERFMON (to ", "CAP_SYS_PTRACE (to ",
			"setcap cap_bpf,cap_perfmon,", "AmbientCapabilities=CAP_BPF CAP_PERFMON ",
			"securityContext.capabilities.add: [BPF, PERFMON, ",
		} {
			require.Contains(t, text, part)
		}
	}
	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, r.Shutdown(t.Context()))
}
