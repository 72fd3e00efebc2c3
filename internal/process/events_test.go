// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func pid(n uint32) model.ProcessID { return model.ProcessID{PID: n, StartTicks: uint64(n)} }

func TestForkInheritsTheDecision(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	h.add(fakeProcess{pid: 11, exe: "/bin/b"})
	table := h.table(Config{Include: []Selector{{Exe: "/bin/a", Set: map[string]string{"service.name": "shop"}}}})
	scan(t, table)
	reads := table.Stats().Reads
	table.Fork(10, pid(20), 0)
	table.Fork(11, pid(21), 0)
	require.True(t, isInScope(table, pid(20)))
	require.False(t, isInScope(table, pid(21)))
	parent, known := table.ForkedFrom(pid(20))
	require.True(t, known)
	require.Equal(t, pid(10), parent)
	_, known = table.ForkedFrom(pid(10))
	require.False(t, known, "no fork event reported it")
	_, known = table.ForkedFrom(pid(30))
	require.False(t, known)
	table.Exit(pid(20))
	require.Equal(t, reads, table.Stats().Reads)

	// It exited unread: what it shared with its parent is known.
	p, inScope, err := table.Lookup(pid(20))
	require.NoError(t, err)
	require.True(t, inScope)
	require.Equal(t, pid(20), p.ID)
	require.Equal(t, "/bin/a", p.Executable)
	require.Equal(t, "shop", p.ServiceName)
	require.Equal(t, reads, table.Stats().Reads)
}

func TestForkDoesNotInheritAPID(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	clock := newClock()
	table := h.table(Config{Include: []Selector{{PID: 10}}, Now: clock.now})
	scan(t, table)
	table.Fork(10, h.add(fakeProcess{pid: 20, exe: "/bin/a"}), 0)
	require.False(t, isInScope(table, pid(20)))
	clock.pass(time.Second)
	require.NoError(t, table.Settle(t.Context()))
	require.Equal(t, []uint32{10}, pids(table))
	require.Zero(t, table.Stats().Undecided)
}

func TestExecIsDecidedWhenSettled(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/sh"})
	clock := newClock()
	var changes []Change
	table := h.table(Config{
		Include: []Selector{{Exe: "/bin/a"}}, Now: clock.now,
		OnChange: func(c []Change) { changes = append(changes, c...) },
	})
	scan(t, table)
	table.Fork(10, h.add(fakeProcess{pid: 20, exe: "/bin/a"}), 0)
	table.Exec(pid(20), Execution{Comm: "a"})
	require.NoError(t, table.Settle(t.Context()))
	require.Empty(t, changes, "not settled yet")
	require.Equal(t, 1, table.Stats().Undecided)
	clock.pass(DefaultSettleDelay)
	require.NoError(t, table.Settle(t.Context()))
	require.Equal(t, []Change{{pid(20), Added}}, changes)

	// A lookup need not wait.
	table.Fork(10, h.add(fakeProcess{pid: 21, exe: "/bin/a"}), 0)
	table.Exec(pid(21), Execution{Comm: "a"})
	_, inScope, err := table.Lookup(pid(21))
	require.NoError(t, err)
	require.True(t, inScope)

	// Another exec puts it out of scope.
	changes = nil
	h.add(fakeProcess{pid: 20, exe: "/bin/other"})
	table.Exec(pid(20), Execution{Comm: "other"})
	clock.pass(DefaultSettleDelay)
	require.NoError(t, table.Settle(t.Context()))
	require.Equal(t, []Change{{pid(20), Removed}}, changes[len(changes)-1:])
	require.Equal(t, []uint32{21}, pids(table))
}

func TestExecReplacesWhatIsKnown(t *testing.T) {
	h := newFakeHost(t)
	id := h.add(fakeProcess{pid: 10, exe: "/bin/sh", env: []string{"OTEL_SERVICE_NAME=job"}, cgroup: "0::/docker/" + idA})
	var changes []Change
	table := h.table(Config{OnChange: func(c []Change) { changes = append(changes, c...) }})
	before, _, err := table.Lookup(id)
	require.NoError(t, err)
	h.add(fakeProcess{pid: 10, exe: "/bin/sort"})
	table.Exec(id, Execution{Comm: "sort"})
	after, _, err := table.Lookup(id)
	require.NoError(t, err)
	require.Equal(t, "/bin/sh", before.Executable, "a value that was given away does not change")
	require.Equal(t, "/bin/sort", after.Executable)
	require.Equal(t, []Change{{id, Added}, {id, Executed}}, changes)
}

func TestShortLivedProgramIsInferred(t *testing.T) {
	h := newFakeHost(t)
	parent := h.add(fakeProcess{pid: 10, exe: "/bin/sh", env: []string{"OTEL_SERVICE_NAME=job"}, cgroup: "0::/docker/" + idA})
	other := h.add(fakeProcess{pid: 11, exe: "/bin/sh"})
	clock := newClock()
	table := h.table(Config{Now: clock.now})
	for _, id := range []model.ProcessID{parent, other} {
		_, _, err := table.Lookup(id)
		require.NoError(t, err)
	}
	for i, parent := range []uint32{10, 11} {
		id := pid(20 + uint32(i))
		table.Fork(parent, id, 0)
		table.Exec(id, Execution{Comm: "sort"})
		table.Exit(id)
	}
	inContainer, _, err := table.Lookup(pid(20))
	require.NoError(t, err)
	require.Equal(t, "sort", inContainer.Comm)
	require.Empty(t, inContainer.Executable)
	require.Equal(t, "job", inContainer.ServiceName)
	require.Equal(t, idA, inContainer.ContainerID)
	outside, _, err := table.Lookup(pid(21))
	require.NoError(t, err)
	require.Equal(t, "unknown_service:sort", outside.ServiceName)
	shell, _, err := table.Lookup(other)
	require.NoError(t, err)
	require.NotEqual(t, shell.ServiceInstanceID, outside.ServiceInstanceID)

	clock.pass(DefaultLinger + time.Second)
	table.Exit(parent) // any exit removes expired entries
	_, _, err = table.Lookup(pid(21))
	require.ErrorIs(t, err, ErrGone)
	require.Equal(t, 1, table.Stats().Lingering)
}

// TestShortLivedProgramHasItsOwnName checks that a program which ended before it was read is named by the environment that it was started
// with, and not by its parent's if its own is known.
func TestShortLivedProgramHasItsOwnName(t *testing.T) {
	h := newFakeHost(t)
	parent := h.add(fakeProcess{pid: 10, exe: "/bin/sh", env: []string{"OTEL_SERVICE_NAME=job"}})
	table := h.table(Config{})
	_, _, err := table.Lookup(parent)
	require.NoError(t, err)
	for i, c := range []struct {
		environment string
		whole       bool
		want        string
		instance    string
	}{
		{"OTEL_SERVICE_NAME=checkout\x00", true, "checkout", ""},
		{"OTEL_SERVICE_NAME=checkout\x00OTEL_RESOURCE_ATTRIBUTES=service.name=no,service.instance.id=a-1\x00", true, "checkout", "a-1"},
		{"OTEL_RESOURCE_ATTRIBUTES=service.name=pay\x00", false, "pay", ""},
		{"", true, "unknown_service:sort", ""},
		{"", false, "job", ""}, // most have their parent's environment
	} {
		id := pid(20 + uint32(i))
		table.Fork(10, id, 0)
		table.Exec(id, Execution{Comm: "sort", ExecID: 3, Environment: []byte(c.environment), EnvironmentWhole: c.whole})
		forked := pid(40 + uint32(i))
		table.Fork(id.PID, forked, 0) // exits unread, too
		table.Exit(forked)
		table.Exit(id)
		for _, one := range []model.ProcessID{id, forked} {
			p, _, err := table.Lookup(one)
			require.NoError(t, err)
			require.Equal(t, c.want, p.ServiceName)
			if c.instance != "" {
				require.Equal(t, c.instance, p.ServiceInstanceID)
			}
		}
		unknown := &model.Process{ID: id, Comm: "sort"}
		table.Describe(unknown, 3)
		if c.instance != "" {
			require.Equal(t, c.instance, unknown.ServiceInstanceID)
		}
		require.Contains(t, []string{c.want, "unknown_service:sort"}, unknown.ServiceName)
		table.Describe(unknown, 4)
		require.Equal(t, "unknown_service:sort", unknown.ServiceName, "of another program")
	}
}

func TestScanKeepsWhatWasForkedMeanwhile(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	table := h.table(Config{})
	scan(t, table)
	number := table.beginScan()
	table.Fork(10, pid(20), 0) // the listing was read before
	table.endScan(&scanner{table: table, number: number})
	require.Equal(t, 1, table.Stats().Known)
	require.True(t, isInScope(table, pid(20)))
}

func TestExitOvertakesAReading(t *testing.T) {
	h := newFakeHost(t)
	id := h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	table := h.table(Config{})
	table.Exit(id) // before it was known
	require.Equal(t, ScanResult{Seen: 1}, scan(t, table), "/proc still shows it")
	require.Zero(t, table.Stats().Known)
}

func TestChangesOnlyTellTheOutcome(t *testing.T) {
	h := newFakeHost(t)
	var batches [][]Change
	var table *Table
	table = h.table(Config{OnChange: func(c []Change) {
		batches = append(batches, c)
		if len(batches) > 1 {
			return
		}
		// Changes that a callback causes are reported afterwards, in one batch.
		table.Fork(10, pid(21), 0)
		table.Exit(pid(21))
		table.Exit(pid(20))
		table.Fork(10, model.ProcessID{PID: 20, StartTicks: 99}, 0)
		table.Exec(model.ProcessID{PID: 20, StartTicks: 99}, Execution{Comm: "x"})
	}})
	table.Fork(10, pid(20), 0)
	require.Equal(t, [][]Change{
		{{pid(20), Added}},
		{{pid(20), Removed}, {model.ProcessID{PID: 20, StartTicks: 99}, Added}},
	}, batches)
}

// TestManyShortLivedProcesses is 30 seconds of a build: 10,000 processes.
func TestManyShortLivedProcesses(t *testing.T) {
	const count = 10_000
	for name, include := range map[string][]Selector{"everything": nil, "by exe": {{Exe: "/bin/server"}}} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(fakeProcess{pid: 10, exe: "/bin/make"})
			clock := newClock()
			inScope := map[model.ProcessID]bool{}
			table := h.table(Config{Include: include, Now: clock.now, OnChange: func(c []Change) {
				for _, change := range c {
					if change.Kind == Removed {
						delete(inScope, change.ID)
					} else {
						inScope[change.ID] = true
					}
				}
			}})
			scan(t, table)
			reads, heap := table.Stats().Reads, heapBytes()
			start := time.Now()
			for n := uint32(0); n < count; n++ {
				id := model.ProcessID{PID: 1000 + n%300, StartTicks: uint64(n)}
				table.Fork(10, id, 0)
				table.Exec(id, Execution{Comm: "cc1"})
				clock.pass(3 * time.Millisecond)
				require.NoError(t, table.Settle(t.Context()))
				table.Exit(id)
			}
			t.Logf("%v for each process, heap %+d KiB", time.Since(start)/count, (heapBytes()-heap)/1024)
			stats := table.Stats()
			require.Equal(t, reads, stats.Reads, "nothing was read")
			require.Equal(t, 1, stats.Known)
			require.Zero(t, stats.Undecided)
			require.Zero(t, stats.Deferred)
			require.LessOrEqual(t, stats.Lingering, maxLingering)
			require.LessOrEqual(t, len(inScope), 1)
			clock.pass(DefaultLinger + time.Second)
			scan(t, table)
			require.Zero(t, table.Stats().Lingering)
			require.NoError(t, table.Settle(t.Context()))
			require.Empty(t, table.waiting)
			require.Empty(t, table.changes.pending)
			require.Less(t, heapBytes()-heap, 2<<20)
		})
	}
}

func heapBytes() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestQueuesAreBounded(t *testing.T) {
	h := newFakeHost(t)
	table := h.table(Config{Include: []Selector{{Exe: "/bin/a"}}, Exclude: []Selector{{Comm: "z"}}})
	for n := uint32(1); n <= maxWaiting+100; n++ {
		table.Exec(pid(n), Execution{Comm: "x"})
	}
	require.Len(t, table.waiting, maxWaiting)
	require.Equal(t, uint64(100), table.Stats().Deferred)

	everything := h.table(Config{})
	for n := uint32(1); n <= maxLingering+100; n++ {
		everything.Fork(1, pid(n), 0)
		everything.Exit(pid(n))
	}
	require.Equal(t, maxLingering, everything.Stats().Lingering)
	require.Equal(t, uint64(100), everything.Stats().LingerDropped)
}

func TestConcurrentUse(t *testing.T) {
	h := shopHost(t)
	table := h.table(Config{Include: []Selector{{Exe: "/usr/**"}}, SettleDelay: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			_, _ = table.Scan(ctx)
			_ = table.Settle(ctx)
			time.Sleep(time.Millisecond)
		}
	})
	for worker := range uint32(3) {
		group.Go(func() {
			for n := range uint32(500) {
				id := pid(1000 + worker*1000 + n)
				table.Fork(10, id, 0)
				table.Exec(id, Execution{Comm: "x"})
				_, _, _ = table.Lookup(pid(10 + n%2))
				table.Stats()
				table.Exit(id)
			}
		})
	}
	require.Eventually(t, func() bool { return table.Stats().Scans > 2 }, time.Minute, time.Millisecond)
	cancel()
	group.Wait()
	scan(t, table)
	require.Equal(t, []uint32{1, 10, 11}, pids(table))
}
