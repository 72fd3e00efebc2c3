// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// changes says that the test binary was started to change on command.
const changes = "EBPFRECEIVER_TEST_CHANGES"

// TestHelperChangeling is a process for other tests that works, listens and renames itself on command.
func TestHelperChangeling(t *testing.T) {
	if os.Getenv(changes) == "" {
		t.Skip("other tests start it")
	}
	go func() {
		for {
			for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); { //nolint:revive // work of its own
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var listener net.Listener
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		what, how, _ := strings.Cut(lines.Text(), " ")
		var err error
		switch what {
		case "listen":
			listener, err = net.Listen("tcp", how)
		case "close":
			err = listener.Close()
		case "rename":
			err = os.WriteFile("/proc/self/comm", []byte(how), 0)
		}
		fmt.Println(what, err)
	}
	os.Exit(0) //nolint:revive // as it stands, with its goroutine
}

// changeling starts such a process; command has it change, and returns when it has.
func changeling(t *testing.T) (pid int, command func(what, how string)) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestHelperChangeling$")
	child.Env = append(os.Environ(), changes+"=1")
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = child.Wait()
	})
	lines := bufio.NewScanner(stdout)
	return child.Process.Pid, func(what, how string) {
		t.Helper()
		_, err := fmt.Fprintln(stdin, what, how)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		require.Equal(t, what+" <nil>", lines.Text())
	}
}

// TestWhatAProcessDoesLater holds that a process is watched and observed by selectors that match it only because of what it does after
// its exec, and that a policy keeps its silence for one that it did not match for a while.
func TestWhatAProcessDoesLater(t *testing.T) {
	needRoot(t)
	guest.SameOnEveryKernel(t) // what processes do is read from /proc; other tests hold what programs do with a new scope
	port := uint16(freeport.For(t))
	address := fmt.Sprintf("127.0.0.1:%d", port)
	pid, command := changeling(t)
	at := func(name string, target ...process.Selector) Policy {
		p := when(name, policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1})
		p.Targets = target
		return p
	}
	config := configuration(5*time.Millisecond, process.Selector{PID: uint32(pid)})
	config.ScanInterval = time.Second
	planOf[*oncpu.Options](config).Targets = []process.Selector{{Port: port}}
	config.Policies = []Policy{
		at("port", process.Selector{Port: port}), at("early", process.Selector{Comm: "^early$"}), at("late", process.Selector{Comm: "^late$"}), at("any"),
	}
	a := &asked{}
	o := beginAsking(t, config, a.ask)
	fires := func(name string) {
		t.Helper()
		require.Eventually(t, func() bool { return len(a.of(name, pid)) == 1 }, patience, 20*time.Millisecond)
	}
	fires("any")
	require.Empty(t, a.of("port", pid))
	require.Empty(t, o.of(isPID(pid)), "it does not listen")

	command("listen", address)
	fires("port")
	require.Eventually(t, func() bool { return len(o.of(isPID(pid))) > 0 }, patience, 20*time.Millisecond)
	command("rename", "early")
	fires("early")

	matches := func(want bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			p, _, err := o.table.LookupPID(uint32(pid))
			return err == nil && o.table.Matches(o.policies.entries[0].targets, p) == want
		}, patience, 20*time.Millisecond)
	}
	command("close", "")
	matches(false)
	command("listen", address)
	matches(true)
	command("rename", "late")
	fires("late")
	o.end()
	require.Len(t, a.of("port", pid), 1, "silence")
	require.Len(t, a.of("early", pid), 1)
}
