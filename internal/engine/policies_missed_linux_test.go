// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/usage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// roomFor reads what so many processes use.
type roomFor struct {
	most int
	ids  map[model.ProcessID]bool
}

func (r *roomFor) Add(id model.ProcessID) error {
	if !r.ids[id] && len(r.ids) == r.most {
		return usage.ErrFull
	}
	r.ids[id] = true
	return nil
}

func (r *roomFor) Remove(id model.ProcessID) error {
	delete(r.ids, id)
	return nil
}

func (*roomFor) Read() error                            { return nil }
func (*roomFor) Of(model.ProcessID) (usage.Usage, bool) { return usage.Usage{}, false }
func (*roomFor) MapBytes() uint64                       { return 0 }
func (*roomFor) Close() error                           { return nil }

// missing are policies over a /proc that the test writes. take takes what there is to take.
type missing struct {
	*policies
	t    *testing.T
	root string
	room *roomFor
}

func newMissing(t *testing.T, most int) *missing {
	m := &missing{t: t, root: t.TempDir(), room: &roomFor{most: most, ids: map[model.ProcessID]bool{}}}
	m.write("sys/kernel/random/boot_id", "6f1d2c3b-0000-4000-8000-000000000001\n")
	table, err := process.New(process.Config{RootPath: m.root, OnChange: func(c []process.Change) { m.scopeChanged(c) }})
	require.NoError(t, err)
	t.Cleanup(table.Close)
	m.policies = &policies{
		table: table, watch: policy.New(nil), reader: m.room, warnings: warn.NewRarely(zap.NewNop(), "", nil),
		changed: make(chan struct{}, 1), missed: map[model.ProcessID]*atomic.Uint64{},
	}
	t.Cleanup(m.warnings.Close)
	require.NoError(t, m.replace([]Policy{when("one", policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1})}))
	return m
}

func (m *missing) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.root, "proc", name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte(text), 0o644))
}

// stat is that of a process that started at a tick.
func stat(pid, started int) string {
	return fmt.Sprintf("%d (web) S 1 1 1 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 1 0 %d 2998272 395 18446744073709551615 1 20 8 0 0\n", pid, started)
}

func (m *missing) begins(pid uint32, stat string) model.ProcessID {
	m.write(fmt.Sprintf("%d/stat", pid), stat)
	for _, name := range []string{"cmdline", "environ", "cgroup"} {
		m.write(fmt.Sprintf("%d/%s", pid, name), "")
	}
	id := model.ProcessID{PID: pid, StartTicks: 5}
	m.table.Fork(1, id, 0)
	m.takeAll()
	return id
}

func (m *missing) takeAll() {
	for len(m.changes) > 0 {
		for _, change := range m.gathered() {
			m.take(change)
		}
	}
}

func (m *missing) lost(reason string) uint64 {
	stats := Stats{Lost: map[LossKey]uint64{}}
	m.stats(&stats)
	return stats.Lost[LossKey{probePolicies, reason}]
}

// TestUnreadProcess holds that a process which cannot be read for another cause than that it has ended is counted once, and watched when
// it can be.
func TestUnreadProcess(t *testing.T) {
	m := newMissing(t, 8)
	id := m.begins(7, "no stat\n")
	require.Zero(t, m.watch.Members())
	require.EqualValues(t, 1, m.lost("processes_unread"))
	m.scanned()
	m.takeAll()
	require.EqualValues(t, 1, m.lost("processes_unread"), "it is the same process")
	require.Zero(t, m.watch.Members())
	m.write("7/stat", stat(7, 5))
	m.scanned()
	m.takeAll()
	require.Equal(t, 1, m.watch.Members())
	require.Empty(t, m.missed)

	// What is watched stays so while it cannot be read.
	m.table.Exec(id, process.Execution{Comm: "web"})
	m.write("7/stat", "no stat\n")
	m.takeAll()
	require.Equal(t, 1, m.watch.Members())
	require.EqualValues(t, 2, m.lost("processes_unread"))
	m.table.Exit(id)
	m.takeAll()
	require.Zero(t, m.watch.Members())
	require.Empty(t, m.missed)
	require.Zero(t, m.lost("processes_full"))
}

// TestEndedProcessIsNotUnread holds that one which has ended is no loss.
func TestEndedProcessIsNotUnread(t *testing.T) {
	m := newMissing(t, 8)
	m.begins(7, stat(7, 6)) // another one has its pid
	require.Zero(t, m.watch.Members())
	require.Empty(t, m.missed)
	require.Zero(t, m.lost("processes_unread"))
}

// TestShortLivedAreNotRead holds that a process which ends before its turn comes is not read, that one which stays is read once, and that
// a pid that is used again is its new process's.
func TestShortLivedAreNotRead(t *testing.T) {
	m := newMissing(t, 8)
	before := m.table.Stats().Reads
	staying, next := model.ProcessID{PID: 7, StartTicks: 5}, model.ProcessID{PID: 8, StartTicks: 6}
	for pid, start := range map[int]int{7: 5, 8: 6} {
		m.write(fmt.Sprintf("%d/stat", pid), stat(pid, start))
		for _, name := range []string{"cmdline", "environ", "cgroup"} {
			m.write(fmt.Sprintf("%d/%s", pid, name), "")
		}
	}
	m.table.Fork(1, staying, 0)
	m.table.Exec(staying, process.Execution{Comm: "web"})
	for range 100 {
		short := model.ProcessID{PID: 8, StartTicks: 4}
		m.table.Fork(1, short, 0)
		m.table.Exec(short, process.Execution{Comm: "true"})
		m.table.Exit(short)
	}
	m.table.Fork(1, next, 0)
	m.takeAll()
	require.Equal(t, before+2, m.table.Stats().Reads)
	require.Equal(t, map[model.ProcessID]bool{staying: true, next: true}, m.room.ids)
	require.Equal(t, 2, m.watch.Members())
	require.Empty(t, m.missed)
	require.Zero(t, m.lost("processes_unread"))
}

// TestRoomComesBack holds that a process for which there was no room is read when there is.
func TestRoomComesBack(t *testing.T) {
	m := newMissing(t, 1)
	first, second := m.begins(7, stat(7, 5)), m.begins(8, stat(8, 5))
	for range 3 {
		m.scanned()
		m.takeAll()
	}
	require.EqualValues(t, 1, m.lost("processes_full"))
	require.Equal(t, map[model.ProcessID]bool{first: true}, m.room.ids)
	require.Equal(t, 2, m.watch.Members(), "its requests count")
	m.table.Exit(first)
	m.takeAll()
	m.scanned()
	m.takeAll()
	require.Equal(t, map[model.ProcessID]bool{second: true}, m.room.ids)
	require.Empty(t, m.missed)
}

// TestWithoutRoomIsNoSecond holds that what a process has used while there was no room to read it is not taken for that of a second.
func TestWithoutRoomIsNoSecond(t *testing.T) {
	m := newMissing(t, 1)
	require.NoError(t, m.replace([]Policy{when("busy", policy.Rule{Monitor: monitor.ProcessCPU, Threshold: 10, Period: 5, Count: 1})}))
	second := int64(0)
	after := func(seconds int64, cpu time.Duration) []policy.Trigger {
		second += seconds
		return m.watch.Tick(policy.Reading{
			Second: second, At: time.Duration(second) * time.Second, CPUs: 1, Usage: func(id model.ProcessID) (policy.Usage, bool) {
				return policy.Usage{CPU: cpu}, m.room.ids[id]
			},
		})
	}
	require.Empty(t, after(1, 0))
	first := m.begins(7, stat(7, 5))
	waits := m.begins(8, stat(8, 5))
	require.Empty(t, after(1, 0))
	m.table.Exit(first)
	m.takeAll()
	m.scanned()
	m.takeAll()
	require.Equal(t, map[model.ProcessID]bool{waits: true}, m.room.ids)
	require.Empty(t, after(100, 50*time.Second))
	require.Len(t, after(1, 50*time.Second+500*time.Millisecond), 1)
}

// TestWhoNeedsPaths holds that those processes alone take room for paths whose policies look at some requests, and not at all.
func TestWhoNeedsPaths(t *testing.T) {
	rule := policy.Rule{Monitor: monitor.HTTPErrorRate, Threshold: 1, Period: 1, Count: 1}
	paths, pattern, threads := rule, rule, policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1}
	paths.Paths, pattern.Pattern = []string{"/pay"}, regexp.MustCompile("pay$")
	var entries []policyEntry
	for _, r := range []policy.Rule{threads, paths, pattern, rule} {
		entries = append(entries, policyEntry{Policy: when("p", r)})
	}
	for by, want := range map[[2]int]*network.Wanted{
		{0, 0}: nil, {0, 1}: {Counted: []string{"/pay"}}, {1, 2}: nil, {2, 2}: nil, {0, 3}: {Rest: true}, {1, 3}: {Counted: []string{"/pay"}, Rest: true},
	} {
		wanted, narrowed := wantedBy(entries, by[:])
		require.Equal(t, want != nil, narrowed, by)
		if narrowed {
			require.Equal(t, want, &wanted)
		}
	}
	_, narrowed := wantedBy(entries, nil)
	require.False(t, narrowed)
}

// TestKernelThreadsAreNamed holds that what is the host's triggers for kernel threads where the configuration names processes alone.
func TestKernelThreadsAreNamed(t *testing.T) {
	of := when("p", policy.Rule{Monitor: monitor.SystemLoad, Threshold: 1, Period: 1, Count: 1})
	require.False(t, rulesOf([]Policy{of}, false)[0].KernelThreads)
	require.True(t, rulesOf([]Policy{of}, true)[0].KernelThreads)
	of.Targets = []process.Selector{{Comm: "^kswapd"}}
	require.True(t, rulesOf([]Policy{of}, false)[0].KernelThreads)
}

// TestGoesOn holds that what policies had started before goes on as the configuration has it now, of those processes that are there, and
// nothing else, and that it is left for the next one where the receiver stops meanwhile.
func TestGoesOn(t *testing.T) {
	m := newMissing(t, 8)
	var asked []task.Request
	why := error(nil)
	m.ask = func(r task.Request) []task.Outcome {
		asked = append(asked, r)
		return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Started, Err: why}}
	}
	rule := policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1}
	one, narrow := when("one", rule), when("narrow", rule)
	one.Runs = []task.Run{{Kind: "network"}, {Kind: "on_cpu", Options: "new"}, {Kind: "memory"}}
	narrow.Targets = []process.Selector{{PID: 8}}
	require.NoError(t, m.replace([]Policy{narrow, one}))
	id := m.begins(7, stat(7, 5))
	before := func(name string, pid uint32, runs ...task.Run) task.Request {
		p := &model.Process{ID: model.ProcessID{PID: pid, StartTicks: id.StartTicks}, ServiceName: "as it was"}
		return task.Request{Name: name, By: "policy:" + name, GoesOn: true, Extend: true, Processes: []*model.Process{p}, Runs: runs}
	}
	short := task.Run{Kind: "on_cpu", Options: "old", Duration: 10 * time.Second}
	unfinished := []task.Request{
		before("one", 7, short, task.Run{Kind: "network", Duration: time.Hour}, task.Run{Kind: "off_cpu", Duration: time.Hour}),
		before("one", 7, task.Run{Kind: "off_cpu", Duration: time.Hour}), // which it does not run any more
		before("one", 9, short),    // that has ended
		before("narrow", 7, short), // it does not match
		before("gone", 7, short),
	}
	e := &Engine{policies: m.policies}
	require.Empty(t, e.Resume(unfinished))
	require.Len(t, asked, 1)
	known, _, err := m.table.Lookup(id)
	require.NoError(t, err)
	r := asked[0]
	require.Same(t, known, r.Processes[0])
	require.Equal(t, []task.Run{
		{Kind: "on_cpu", Options: "new", Duration: 10 * time.Second}, // at most as long as it runs now
		{Kind: "network", Duration: time.Minute, Processes: []*model.Process{known}, Instance: true},
	}, r.Runs)
	require.True(t, r.GoesOn)
	require.False(t, r.Holds())
	m.watch.Tick(policy.Reading{Second: 1, Usage: func(model.ProcessID) (policy.Usage, bool) { return policy.Usage{Threads: 1}, true }})
	require.True(t, r.Holds())

	// Of an instance another process lives on.
	rest := before("one", 9, short, task.Run{Kind: "network", Duration: time.Hour, Instance: true, Processes: []*model.Process{unfinished[2].Processes[0], unfinished[0].Processes[0]}})
	require.Empty(t, e.Resume([]task.Request{rest}))
	require.Len(t, asked, 2)
	require.Same(t, known, asked[1].Processes[0])
	require.Equal(t, []task.Run{{Kind: "network", Duration: time.Minute, Processes: []*model.Process{known}, Instance: true}}, asked[1].Runs)

	why = task.ErrClosed
	require.Equal(t, unfinished[:1], e.Resume(unfinished))
	why = task.ErrFull
	require.Empty(t, e.Resume(unfinished))
	require.Empty(t, (&Engine{}).Resume(unfinished))
}

// TestProcessesOfMonitors holds that requests are read of the processes that policies watch by them, and that the warning of a policy's selector
// is warned of it once, by the key that is in the configuration.
func TestProcessesOfMonitors(t *testing.T) {
	m := newMissing(t, 8)
	requests := when("requests", policy.Rule{Monitor: monitor.HTTPErrorRate, Threshold: 1, Period: 1, Count: 1})
	requests.Targets = []process.Selector{{Comm: "^absent$"}, {PID: 7}}
	others := when("others", policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1})
	e := &Engine{
		config: Config{Policies: []Policy{requests, others}, Observe: []observe.Plan{&oncpu.Options{Common: observe.Common{Targets: []process.Selector{{Comm: "^no one$"}}}}}},
		table:  m.table, policies: m.policies, subjects: &subjects{},
	}
	require.NoError(t, m.replace(e.config.Policies))
	require.NoError(t, e.targetKinds())
	m.begins(7, stat(7, 5))
	m.begins(8, stat(8, 5))
	scope := func(pid uint32) lifecycle.Scope {
		p, _, err := m.table.LookupPID(pid)
		require.NoError(t, err)
		return e.subjects.scopeOf(p)
	}
	require.Equal(t, lifecycle.ScopeMonitors, scope(7))
	require.Equal(t, lifecycle.ScopeNone, scope(8))
	_, err := m.table.Scan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"policies[0]::targets[0]", "observe::on_cpu::targets[0]"}, m.table.Stats().Unmatched)
}
