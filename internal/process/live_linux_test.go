// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// eventually scans until a condition holds.
func eventually(t *testing.T, table *Table, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := table.Scan(t.Context())
		require.NoError(t, err)
		if holds() {
			return
		}
		require.True(t, time.Now().Before(deadline), "it does not come true")
		time.Sleep(5 * time.Millisecond)
	}
}

func live(t *testing.T, cfg Config) *Table {
	self, err := SelfPID("/")
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), int(self), "/proc is not of this pid namespace")
	cfg.SelfPID = self
	table, err := New(cfg)
	require.NoError(t, err)
	return table
}

func TestLiveChildren(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 & read line; exec sleep 601")
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=live test", "OTEL_RESOURCE_ATTRIBUTES=service.instance.id=n%201")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	before := time.Now()
	require.NoError(t, cmd.Start())
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	started := time.Now()

	changes := map[model.ProcessID][]ChangeKind{}
	table := live(t, Config{
		Include:  []Selector{{Service: "^live test$"}},
		OnChange: func(list []Change) { record(changes, list) },
	})
	// The shell and the sleep that it forked.
	var shell, sleep *model.Process
	eventually(t, table, func() bool {
		for _, p := range processes(table) {
			if p.ID.PID == uint32(cmd.Process.Pid) {
				shell = p
			} else if p.Comm == "sleep" && len(p.Arguments) > 0 { // not in the middle of its exec
				sleep = p
			}
		}
		return shell != nil && sleep != nil
	})
	defer kill(t, sleep.ID.PID)
	require.Equal(t, []string{"sh", "-c", "sleep 600 & read line; exec sleep 601"}, shell.Arguments)
	require.Equal(t, "n 1", shell.ServiceInstanceID)
	const tolerance = 2 * time.Second // the kernel counts in ticks
	require.WithinRange(t, shell.CreationTime, before.Add(-tolerance), started.Add(tolerance))
	require.Equal(t, []string{"sleep", "600"}, sleep.Arguments)
	require.Equal(t, []ChangeKind{Added}, changes[shell.ID])

	_, err = io.WriteString(stdin, "go\n")
	require.NoError(t, err)
	eventually(t, table, func() bool {
		p, inScope, err := table.Lookup(shell.ID)
		return err == nil && inScope && p.Comm == "sleep"
	})
	require.Equal(t, []ChangeKind{Added, Executed}, changes[shell.ID])

	require.NoError(t, cmd.Process.Kill())
	// It is a zombie until Wait.
	eventually(t, table, func() bool { return len(changes[shell.ID]) == 3 })
	require.Equal(t, Removed, changes[shell.ID][2])
	late, inScope, err := table.Lookup(shell.ID)
	require.NoError(t, err)
	require.True(t, inScope)
	require.Equal(t, []string{"sleep", "601"}, late.Arguments)
	require.Error(t, cmd.Wait(), "it was killed")
	ended = true
}

// TestLiveDeleted checks that the suffix which the kernel adds to the name of a removed file is not taken for the name, and that it is where
// the file is called so.
func TestLiveDeleted(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	program, err := os.ReadFile(sleep)
	require.NoError(t, err)
	table := live(t, Config{})
	for name, c := range map[string]struct {
		remove bool
		want   string
	}{
		"there":                     {false, "there"},
		"called so (deleted)":       {false, "called so (deleted)"},
		"gone":                      {true, "gone"},
		"gone and called (deleted)": {true, "gone and called (deleted)"},
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, program, 0o755))
		cmd := &exec.Cmd{Path: path, Args: []string{"sleep", "60"}}
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { // in guests Start may return before the exec
			exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
			return err == nil && exe == path
		}, time.Minute, time.Millisecond)
		if c.remove {
			require.NoError(t, os.Remove(path))
		}
		p, inScope, err := table.LookupPID(uint32(cmd.Process.Pid))
		kill(t, uint32(cmd.Process.Pid))
		require.Error(t, cmd.Wait(), "it was killed")
		require.NoError(t, err, name)
		require.True(t, inScope, name)
		require.Equal(t, filepath.Join(filepath.Dir(path), c.want), p.Executable, name)
	}
}

// TestLiveChangedRoot checks that the executable of a process that has changed its root is reported as the process sees it.
func TestLiveChangedRoot(t *testing.T) {
	guest.SameOnEveryKernel(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: chroot(2)")
	}
	program, err := os.ReadFile(testbin.C(t, "../engine/testdata/leaderless.c", "-static"))
	require.NoError(t, err)
	table := live(t, Config{Include: []Selector{{Exe: "/bin/*"}}})
	for _, name := range []string{"app", "called so (deleted)"} {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "bin", name), program, 0o755))
		cmd := &exec.Cmd{Path: "/bin/" + name, Args: []string{name, "60000", "60000"}, SysProcAttr: &syscall.SysProcAttr{Chroot: root}}
		require.NoError(t, cmd.Start())
		p, inScope, err := table.LookupPID(uint32(cmd.Process.Pid))
		kill(t, uint32(cmd.Process.Pid))
		require.Error(t, cmd.Wait(), "it was killed")
		require.NoError(t, err)
		require.True(t, inScope, name)
		require.Equal(t, "/bin/"+name, p.Executable)
	}
}

// TestLiveMainThreadEnds checks that a process whose main thread has exited keeps its identity, also when it is discovered only then.
func TestLiveMainThreadEnds(t *testing.T) {
	guest.SameOnEveryKernel(t) // the engine's test of it runs there
	path := testbin.C(t, "testdata/outlives.c")
	cmd := exec.Command(path, "its", "main")
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=live outlived")
	end, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it was killed")
	}()
	pid := uint32(cmd.Process.Pid)
	before := live(t, Config{Include: []Selector{{Exe: path}}})
	found := func(table *Table) *model.Process {
		p, inScope, err := table.LookupPID(pid)
		require.NoError(t, err)
		require.True(t, inScope)
		return p
	}
	require.Eventually(t, func() bool { // in guests Start may return before the exec
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		return err == nil && exe == path
	}, time.Minute, time.Millisecond)
	known := found(before)
	program, err := before.ProgramOf(known.ID)
	require.NoError(t, err)
	require.NotZero(t, program)
	_, err = end.Write([]byte("\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return before.fs.shownAs(pid) != pid }, time.Minute, time.Millisecond)

	now, err := before.ProgramOf(known.ID)
	require.NoError(t, err)
	require.Equal(t, program, now)
	scan(t, before)
	require.Same(t, known, found(before), "nothing has changed")
	for _, include := range [][]Selector{nil, {{Exe: path}}, {{Comm: "^outlives$"}}, {{Service: "^live outlived$"}}, {{Cmdline: "its main"}}} {
		after := live(t, Config{Include: include})
		scan(t, after)
		p := found(after)
		require.Equal(t, path, p.Executable)
		require.Equal(t, "outlives", p.Comm)
		require.Equal(t, "live outlived", p.ServiceName)
		require.Equal(t, []string{path, "its", "main"}, p.Arguments)
		require.Equal(t, known.ID, p.ID)
		_, inScope, program, err := after.LookupProgram(known.ID, 0)
		require.NoError(t, err)
		require.True(t, inScope)
		require.Equal(t, now, program)
	}
	var buf [4096]byte
	require.NotZero(t, before.fs.namespaceOf(pid, buf[:]))
	p, ok := before.fs.runsSame(pid, path, buf[:])
	require.True(t, ok)
	require.Equal(t, known.ID.StartTicks, p.startTicks)
}

// TestLiveExecs checks that scans alone, which often read in the middle of an exec, keep a process in scope that runs one program after the
// other.
func TestLiveExecs(t *testing.T) {
	const again = `exec sh -c "$0" "$0"`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", again, again)
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=live execs")
	require.NoError(t, cmd.Start())
	defer func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it was killed")
	}()
	changes := map[model.ProcessID][]ChangeKind{}
	table := live(t, Config{
		Include:  []Selector{{Service: "^live execs$"}},
		OnChange: func(list []Change) { record(changes, list) },
	})
	var id model.ProcessID
	eventually(t, table, func() bool {
		for id = range changes {
		}
		return len(changes[id]) >= 40
	})
	require.Len(t, changes, 1)
	require.Equal(t, cmd.Process.Pid, int(id.PID))
	require.Equal(t, Added, changes[id][0])
	for _, kind := range changes[id][1:] {
		require.Equal(t, Executed, kind)
	}
}

func record(changes map[model.ProcessID][]ChangeKind, list []Change) {
	for _, c := range list {
		changes[c.ID] = append(changes[c.ID], c.Kind)
	}
}

func kill(t *testing.T, pid uint32) {
	process, err := os.FindProcess(int(pid))
	require.NoError(t, err)
	if err := process.Kill(); err != nil {
		require.ErrorIs(t, err, os.ErrProcessDone)
	}
	require.NoError(t, process.Release())
}

func TestLivePorts(t *testing.T) {
	var config net.ListenConfig
	tcp, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close()
	udp, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	ports := []uint16{uint16(tcp.Addr().(*net.TCPAddr).Port), uint16(udp.LocalAddr().(*net.UDPAddr).Port)}
	for _, port := range ports {
		table := live(t, Config{Include: []Selector{{Port: port}}})
		// Others may listen to the port in a network namespace of their own, or at another address.
		eventually(t, table, func() bool { return slices.Contains(pids(table), uint32(os.Getpid())) })
	}
	require.NoError(t, tcp.Close())
	clock := &clock{time: time.Now()}
	table := live(t, Config{Include: []Selector{{Port: ports[0]}}, Now: clock.now})
	scan(t, table)
	require.NotContains(t, pids(table), uint32(os.Getpid()))
}

func TestLiveScanLeaksNoDescriptor(t *testing.T) {
	table := live(t, Config{Exclude: []Selector{{Exe: "/nothing"}, {Port: 1}}})
	scan(t, table)
	before := descriptors(t)
	for range 3 {
		scan(t, table)
		processes(table)
	}
	require.LessOrEqual(t, descriptors(t), before, "the garbage collector closes what other tests have left")
}

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestLivePIDNamespace(t *testing.T) {
	link, err := os.Readlink("/proc/1/ns/pid")
	if errors.Is(err, os.ErrPermission) {
		link, err = os.Readlink("/proc/self/ns/pid")
	}
	require.NoError(t, err)
	if link == "pid:[4026531836]" {
		require.NoError(t, CheckPIDNamespace("/"))
	} else {
		require.ErrorIs(t, CheckPIDNamespace("/"), ErrPIDNamespace)
	}
}
