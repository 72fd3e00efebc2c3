// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// askEnv makes this binary ask about one flow and print the answer.
const askEnv = "EBPFRECEIVER_CONNTRACK_ASK"

type question struct {
	Place Place
	Flow  Flow
}

type answer struct {
	Others   []Flow
	Stats    Stats
	Degraded string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(askEnv); text != "" {
		if err := askAndPrint(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	nettest.Main()
	goleak.VerifyTestMain(m)
}

func askAndPrint(text string) error {
	var q question
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return err
	}
	r, err := New(Config{})
	if err != nil {
		return err
	}
	defer r.Close()
	a := answer{Others: r.OtherSides(q.Place, []Flow{q.Flow}), Stats: r.Stats()}
	if err := r.Degraded(); err != nil {
		a.Degraded = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

// TestPrivileges checks which capabilities are enough, and that the error names the missing one: a process of another user asks.
func TestPrivileges(t *testing.T) {
	client, server, at, _ := translated(t, true)
	text, err := json.Marshal(question{at, of(client, TCP)})
	require.NoError(t, err)
	for _, c := range []struct {
		granted []uintptr
		want    string
	}{
		{[]uintptr{unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}, ""},
		{[]uintptr{unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN}, "missing CAP_NET_ADMIN (to ask the kernel's connection tracking"},
		{[]uintptr{unix.CAP_SYS_PTRACE, unix.CAP_NET_ADMIN}, "missing CAP_SYS_ADMIN (to enter the network namespaces of containers"},
		{[]uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}, "missing CAP_SYS_PTRACE (to "},
	} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), askEnv+"="+string(text))
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: c.granted,
		}
		out, err := cmd.Output()
		require.NoError(t, err, "%v", c.granted)
		var a answer
		require.NoError(t, json.Unmarshal(out, &a))
		if c.want == "" {
			require.Equal(t, answer{Others: []Flow{of(server, TCP)}, Stats: Stats{Translated: 1}}, a)
			continue
		}
		require.Contains(t, a.Degraded, c.want)
		require.Equal(t, Stats{Failed: 1}, a.Stats)
		require.Equal(t, []Flow{of(client, TCP).Reversed()}, a.Others, "the addresses of the socket are reported nevertheless")
	}
}
