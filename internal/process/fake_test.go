// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const fakeBootID = "6f1d2c3b-0000-4000-8000-000000000001"

// fakeHost is a root file system with a /proc that tests write.
type fakeHost struct {
	t    testing.TB
	root string
}

// fakeProcess is the content of its /proc/PID. Start 0 stands for the pid, an empty comm for the executable's name.
type fakeProcess struct {
	pid, parent  uint32
	start, image uint64
	comm, exe    string
	args, env    []string
	cgroup       string
	kernel       bool
	executing    bool // in the middle of an exec
	state        string
	threads      int
	sockets      []uint64
	netns        uint64
	tcp, udp     []string
}

func newFakeHost(t testing.TB) *fakeHost {
	h := &fakeHost{t: t, root: t.TempDir()}
	h.write("proc/sys/kernel/random/boot_id", fakeBootID+"\n")
	return h
}

func (h *fakeHost) write(name, text string) {
	path := filepath.Join(h.root, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
}

func (h *fakeHost) link(name, target string) {
	path := filepath.Join(h.root, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.RemoveAll(path))
	require.NoError(h.t, os.Symlink(target, path))
}

// add writes a process and returns its identity.
func (h *fakeHost) add(p fakeProcess) model.ProcessID {
	p.defaults()
	dir := fmt.Sprintf("proc/%d/", p.pid)
	h.write(dir+"stat", p.stat())
	if p.exe != "" {
		h.link(dir+"exe", p.exe)
	}
	h.write(dir+"cmdline", nulEnded(p.args))
	h.write(dir+"environ", nulEnded(p.env))
	h.write(dir+"cgroup", p.cgroup)
	h.link(dir+"ns/net", fmt.Sprintf("net:[%d]", p.netns))
	require.NoError(h.t, os.RemoveAll(filepath.Join(h.root, dir, "fd")))
	require.NoError(h.t, os.MkdirAll(filepath.Join(h.root, dir, "fd"), 0o755))
	for i, inode := range p.sockets {
		h.link(dir+"fd/"+strconv.Itoa(i), fmt.Sprintf("socket:[%d]", inode))
	}
	h.write(dir+"net/tcp", "heading\n"+strings.Join(p.tcp, "\n"))
	h.write(dir+"net/udp", "heading\n"+strings.Join(p.udp, "\n"))
	return model.ProcessID{PID: p.pid, StartTicks: p.start}
}

func (p *fakeProcess) defaults() {
	if p.start == 0 {
		p.start = uint64(p.pid)
	}
	if p.comm == "" {
		p.comm = filepath.Base(p.exe)
	}
	if p.state == "" {
		p.state = "S"
	}
	if p.threads == 0 {
		p.threads = 1
	}
	if p.netns == 0 {
		p.netns = 4026531840
	}
	if p.cgroup == "" {
		p.cgroup = "0::/\n"
	}
}

func (p *fakeProcess) stat() string {
	flags := 4194304
	if p.kernel {
		flags = 2129984
	}
	code, end, stack := p.image, uint64(20), p.image+7
	if p.executing {
		code, end = 0, 0
	}
	return fmt.Sprintf("%d (%s) %s %d 1 1 0 -1 %d 101 0 0 0 0 0 0 0 20 0 %d 0 %d 2998272 395 18446744073709551615 %d %d %d 0 0\n",
		p.pid, p.comm, p.state, p.parent, flags, p.threads, p.start, code, end, stack)
}

func nulEnded(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, "\x00") + "\x00"
}

func (h *fakeHost) remove(pid uint32) {
	require.NoError(h.t, os.RemoveAll(filepath.Join(h.root, "proc", strconv.Itoa(int(pid)))))
}

// clock is a clock that tests advance.
type clock struct{ time time.Time }

func newClock() *clock { return &clock{time: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.time }

func (c *clock) pass(d time.Duration) { c.time = c.time.Add(d) }

// table makes a table over the fake host.
func (h *fakeHost) table(cfg Config) *Table {
	cfg.RootPath = h.root
	table, err := New(cfg)
	require.NoError(h.t, err)
	return table
}

// scan scans and returns the result without its duration.
func scan(t testing.TB, table *Table) ScanResult {
	result, err := table.Scan(t.Context())
	require.NoError(t, err)
	require.Positive(t, result.Duration)
	result.Duration = 0
	return result
}

// processes are the running processes in scope that can be read, by pid.
func processes(table *Table) []*model.Process {
	table.mu.RLock()
	ids := slices.Collect(maps.Keys(table.byPID))
	table.mu.RUnlock()
	slices.Sort(ids)
	var list []*model.Process
	for _, id := range ids {
		if p, inScope, err := table.LookupPID(id); err == nil && inScope {
			list = append(list, p)
		}
	}
	return list
}

// isInScope reports whether a process is in scope, by what is known now.
func isInScope(table *Table, id model.ProcessID) bool {
	table.mu.RLock()
	defer table.mu.RUnlock()
	e := table.find(id)
	return e != nil && e.inScope
}

// pids are the processes in scope.
func pids(table *Table) []uint32 {
	list := []uint32{}
	for _, p := range processes(table) {
		list = append(list, p.ID.PID)
	}
	return list
}
