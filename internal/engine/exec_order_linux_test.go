// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// fakeProc is a root with a /proc that has little in it.
func fakeProc(t *testing.T) string {
	root := t.TempDir()
	path := filepath.Join(root, "proc/sys/kernel/random/boot_id")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("6f1d2c3b-0000-4000-8000-000000000001\n"), 0o644))
	return root
}

// runProgram makes process 7, which started at tick 1, run a program whose code is at an address.
func runProgram(t *testing.T, root string, address int) {
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc/7"), 0o755))
	line := fmt.Sprintf("7 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0 %d %d %d 0 0\n", address, address+1, address+2)
	require.NoError(t, os.WriteFile(filepath.Join(root, "proc/7/stat"), []byte(line), 0o644))
}

func withTable(t *testing.T, config process.Config) *subjects {
	table, err := process.New(config)
	require.NoError(t, err)
	return &subjects{
		table: table, boot: kernel.BootTime, logger: zap.NewNop(),
		known: map[observe.SubjectKey]*subject{}, byProcess: map[model.ProcessID][]observe.SubjectKey{},
	}
}

// TestReadTooLate holds that what was read after a further exec is taken back when the exec is reported, and only that.
func TestReadTooLate(t *testing.T) {
	first := observe.SubjectKey{PID: 7, StartBoottime: 10_000_000, ExecID: ^uint32(0)}
	second := observe.SubjectKey{PID: 7, StartBoottime: 10_000_000, ExecID: 0} // the counter goes round
	for name, tt := range map[string]struct {
		now      int
		exited   bool
		scope    []process.Selector
		want     string
		departed bool
	}{
		"in time":          {now: 2000, want: "/bin/first"},
		"too late":         {now: 1000, want: ""},
		"too late, narrow": {now: 1000, scope: []process.Selector{{Exe: "/bin/first"}}, want: "nil", departed: true},
		"exited":           {now: 1000, exited: true, want: "/bin/first"},
	} {
		for _, reported := range []string{"by the event", "by discovering the next"} {
			if tt.exited && reported == "by discovering the next" {
				continue
			}
			t.Run(name+" "+reported, func(t *testing.T) {
				root := fakeProc(t)
				runProgram(t, root, 1000)
				s := withTable(t, process.Config{RootPath: root, Include: tt.scope})
				read, err := s.table.ProgramOf(first.ID())
				require.NoError(t, err)
				old := s.subject()
				old.program = read
				old.process.Store(&model.Process{ID: first.ID(), Executable: "/bin/first"})
				s.remember(first, old)
				runProgram(t, root, tt.now)
				switch {
				case tt.exited:
					s.table.Exit(first.ID())
					s.ended(first.ID(), func(observe.SubjectKey) bool { return false })
				case reported == "by the event":
					s.ended(first.ID(), func(key observe.SubjectKey) bool { return key == second })
				default:
					next := s.subject()
					next.program, err = s.table.ProgramOf(first.ID())
					require.NoError(t, err)
					s.remember(second, next)
				}
				require.Equal(t, drainsAfterEnd, s.known[first].ended)
				require.Equal(t, tt.want != "/bin/first", s.known[first] != old)
				if p := s.known[first].process.Load(); tt.want == "nil" {
					require.Nil(t, p)
				} else {
					require.Equal(t, tt.want, p.Executable)
				}
				require.Equal(t, tt.want != "/bin/first", old.lost.Load(), "who holds on to it")
				require.Equal(t, tt.want == "/bin/first", old.Process().Executable != "")
				require.Equal(t, tt.departed, s.known[first].undecided)
			})
		}
	}
}

// TestSuccession asks of a real process at the wrong times.
func TestSuccession(t *testing.T) {
	needRoot(t)
	self, err := process.SelfPID("/")
	require.NoError(t, err)
	s := withTable(t, process.Config{SelfPID: self})
	s.tracker, err = lifecycle.Start(kernel.NewLoader(), 64)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.tracker.Close()) }()
	s.symbols, err = symbol.New(symbol.Config{RootPath: "/", MemoryBytes: 64 << 20, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.symbols.Close()) }()
	defer s.close()
	comm := func(key observe.SubjectKey) string { return s.find(key).Process().Comm }

	p, become := shell(t)
	first := keyOf(t, s, p.Process.Pid)
	second := first
	second.ExecID++
	s.handleAsk(first, "sh")
	require.Equal(t, "sh", comm(first))
	require.False(t, s.find(first).Gone())
	become()
	s.handleAsk(first, "sh") // again, and no event has reported the exec
	require.Equal(t, "sh", comm(first), "the old program is not described by the new one")
	require.Equal(t, drainsAfterEnd, s.find(first).ended)
	s.handleAsk(second, "sleep")
	require.Equal(t, "sleep", comm(second))
	require.False(t, s.find(second).Gone())
	require.Zero(t, s.find(second).ended)
	require.Equal(t, "sh", comm(first))
	require.False(t, s.find(first).Gone(), "it keeps its own mappings")

	p, become = shell(t)
	first = keyOf(t, s, p.Process.Pid)
	second = first
	second.ExecID++
	become()
	s.handleAsk(first, "sh") // the first time, too late
	require.Equal(t, "sleep", comm(first), "it cannot be known yet")
	s.table.Exec(first.ID(), process.Execution{Comm: "sleep"})
	s.ended(first.ID(), func(key observe.SubjectKey) bool { return key == second })
	require.Empty(t, comm(first))
	require.True(t, s.find(first).Gone())
	require.Equal(t, "sh", s.seen(first, "sh").Process().Comm, "a sample knows the name")
	require.Equal(t, "unknown_service:sh", s.find(first).Process().ServiceName)
	s.handleAsk(second, "sleep")
	require.Equal(t, "sleep", comm(second))

	p, become = shell(t)
	first = keyOf(t, s, p.Process.Pid)
	second = first
	second.ExecID++
	become()
	s.handleAsk(second, "sleep")
	require.Equal(t, "sh", s.seen(first, "sh").Process().Comm, "a later one is known")
	require.True(t, s.find(first).Gone())
	require.Positive(t, s.find(first).ended)
	require.False(t, s.find(second).Gone())
	require.Zero(t, s.find(second).ended)
}

// shell starts a program that executes another one on command.
func shell(t *testing.T) (p *program, become func()) {
	t.Helper()
	p = &program{Cmd: exec.Command("sh", "-c", "read line; exec sleep 60"), t: t, began: time.Now()}
	stdin, err := p.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait() // it was killed
	})
	is := func(name string) func() bool {
		return func() bool {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Process.Pid))
			return err == nil && strings.HasPrefix(string(line), name+"\x00")
		}
	}
	require.Eventually(t, is("sh"), time.Minute, time.Millisecond)
	return p, func() {
		_, err := io.WriteString(stdin, "go\n")
		require.NoError(t, err)
		require.Eventually(t, is("sleep"), time.Minute, time.Millisecond)
	}
}

// keyOf is the key of what a process runs.
func keyOf(t *testing.T, s *subjects, pid int) observe.SubjectKey {
	p, inScope, err := s.table.LookupPID(uint32(pid))
	require.NoError(t, err)
	require.True(t, inScope)
	key := observe.SubjectKey{PID: p.ID.PID, StartBoottime: p.ID.StartTicks * uint64(time.Second/model.TicksPerSecond), ExecID: 5}
	require.Equal(t, p.ID, key.ID())
	return key
}

// TestUnreadSubject holds that only what is gone is called so.
func TestUnreadSubject(t *testing.T) {
	var unnamed, unread atomic.Uint64
	s := &subject{unnamed: &unnamed, unread: &unread}
	s.process.Store(&model.Process{})
	require.False(t, s.Gone(), "its mappings could not be read, but it is there")
	require.Len(t, s.UserFrames(nil, []uint64{1, 2, 3}, 0), 3)
	require.Equal(t, []uint64{0, 3}, []uint64{unnamed.Load(), unread.Load()})
	s.lost.Store(true)
	require.True(t, s.Gone())
	require.Len(t, s.UserFrames(nil, []uint64{1, 2}, 0), 2)
	require.Equal(t, []uint64{2, 3}, []uint64{unnamed.Load(), unread.Load()})
	s.process.Store(&model.Process{KernelThread: true})
	require.False(t, s.Gone(), "a kernel thread has none")
	s.close()
}
