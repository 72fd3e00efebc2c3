// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestLookup(t *testing.T) {
	h := newFakeHost(t)
	id := h.add(fakeProcess{
		pid: 10, start: 5000, comm: "python3", exe: "/usr/bin/python3.11 (deleted)", args: []string{"python3", "cart.py"},
		cgroup: "0::/kubepods/burstable/pod" + uid + "/" + idA,
	})
	table := h.table(Config{})
	p, inScope, err := table.Lookup(id)
	require.NoError(t, err)
	require.True(t, inScope)
	boot, err := readBootOffset()
	require.NoError(t, err)
	require.WithinDuration(t, time.Unix(50, boot), p.CreationTime, time.Second)
	require.Equal(t, &model.Process{
		ID: id, Comm: "python3", Executable: "/usr/bin/python3.11", Arguments: []string{"python3", "cart.py"},
		CreationTime: p.CreationTime, ServiceName: "unknown_service:python3.11",
		ServiceInstanceID: uuid.NewSHA1(uuid.MustParse("4d63009a-8d0f-11ee-aad7-4c796ed8e320"), []byte(idA)).String(),
		ContainerID:       idA, PodUID: uid,
	}, p)
	require.True(t, isInScope(table, id))
	again, _, err := table.Lookup(id)
	require.NoError(t, err)
	require.Same(t, p, again)
	byPID, inScope, err := table.LookupPID(10)
	require.NoError(t, err)
	require.True(t, inScope)
	require.Same(t, p, byPID)
	require.Equal(t, uint64(1), table.Stats().Reads)
}

func TestLookupOfAnotherProcess(t *testing.T) {
	h := newFakeHost(t)
	id := h.add(fakeProcess{pid: 10, start: 5000, exe: "/bin/a"})
	table := h.table(Config{})
	_, _, err := table.Lookup(model.ProcessID{PID: 10, StartTicks: 4999})
	require.ErrorIs(t, err, ErrGone)
	require.EqualError(t, err, "process 10 (started at tick 4999): the process is gone")
	_, _, err = table.Lookup(model.ProcessID{PID: 11, StartTicks: 1})
	require.ErrorIs(t, err, ErrGone)
	_, _, err = table.LookupPID(11)
	require.ErrorIs(t, err, ErrGone)
	require.Empty(t, table.Stats().ReadErrors, "ending is no error")

	// The pid is used again: the older process is known no more.
	_, _, err = table.Lookup(id)
	require.NoError(t, err)
	next := h.add(fakeProcess{pid: 10, start: 6000, exe: "/bin/b"})
	p, _, err := table.Lookup(next)
	require.NoError(t, err)
	require.Equal(t, "/bin/b", p.Executable)
	require.Equal(t, 1, table.Stats().Known)
}

func TestInstances(t *testing.T) {
	h := newFakeHost(t)
	a := h.add(fakeProcess{pid: 10, exe: "/bin/a", cgroup: "0::/docker/" + idA})
	b := h.add(fakeProcess{pid: 11, exe: "/bin/b", cgroup: "0::/docker/" + idA})
	c := h.add(fakeProcess{pid: 12, exe: "/bin/c"})
	d := h.add(fakeProcess{pid: 13, exe: "/bin/c"})
	e := h.add(fakeProcess{pid: 14, exe: "/bin/c", env: []string{"OTEL_RESOURCE_ATTRIBUTES=service.instance.id=x-1"}})
	table := h.table(Config{})
	instance := func(id model.ProcessID) string {
		p, _, err := table.Lookup(id)
		require.NoError(t, err)
		return p.ServiceInstanceID
	}
	require.Equal(t, instance(a), instance(b))
	require.NotEqual(t, instance(c), instance(d))
	require.Equal(t, uuid.NewSHA1(instanceNamespace, []byte(fakeBootID+"/12/12")).String(), instance(c))
	require.Equal(t, "x-1", instance(e))
}

func TestKernelThread(t *testing.T) {
	h := newFakeHost(t)
	id := h.add(fakeProcess{pid: 2, comm: "kworker/0:1-events", kernel: true})
	p, inScope, err := h.table(Config{}).Lookup(id)
	require.NoError(t, err)
	require.True(t, inScope)
	require.True(t, p.KernelThread)
	require.Equal(t, "unknown_service:kworker/0:1", p.ServiceName)
	require.Empty(t, p.Executable)
}

func TestZombiesAreNotThere(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a", state: "Z"})
	h.add(fakeProcess{pid: 11, comm: "leader", state: "Z", threads: 3})
	table := h.table(Config{})
	require.Equal(t, ScanResult{Seen: 1, Added: 1}, scan(t, table))
	require.Equal(t, []uint32{11}, pids(table))
}

func TestScanFollows(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a", image: 100})
	h.add(fakeProcess{pid: 11, exe: "/bin/b", image: 100})
	var changes []Change
	table := h.table(Config{Include: []Selector{{Exe: "/bin/[ac]"}}, OnChange: func(c []Change) { changes = append(changes, c...) }})
	require.Equal(t, ScanResult{Seen: 2, Added: 2}, scan(t, table))
	require.Equal(t, ScanResult{Seen: 2}, scan(t, table))
	require.Equal(t, uint64(2), table.Stats().Reads, "what did not change is not read again")
	a, b := model.ProcessID{PID: 10, StartTicks: 10}, model.ProcessID{PID: 11, StartTicks: 11}
	require.Equal(t, []Change{{a, Added}}, changes)

	// Both run another program; nobody told.
	changes = nil
	h.add(fakeProcess{pid: 10, exe: "/bin/c", image: 200})
	h.add(fakeProcess{pid: 11, exe: "/bin/a", image: 200})
	require.Equal(t, ScanResult{Seen: 2, Changed: 2}, scan(t, table))
	require.ElementsMatch(t, []Change{{a, Executed}, {b, Added}}, changes)
	require.Equal(t, "/bin/c", processes(table)[0].Executable)

	// One ends, the pid of the other is used again.
	changes = nil
	h.remove(10)
	b2 := h.add(fakeProcess{pid: 11, start: 99, exe: "/bin/a", image: 200})
	require.Equal(t, ScanResult{Seen: 1, Added: 1, Ended: 1}, scan(t, table))
	require.Len(t, changes, 3)
	require.ElementsMatch(t, []Change{{a, Removed}, {b, Removed}}, changes[:2], "removed first")
	require.Equal(t, Change{b2, Added}, changes[2])
}

func TestScanSeesANewName(t *testing.T) {
	for _, include := range [][]Selector{nil, {{Comm: "^(a|b)$"}}, {{Comm: "^b$"}}, {{Comm: "^b$", Exe: "/bin/a"}}} {
		h := newFakeHost(t)
		id := h.add(fakeProcess{pid: 10, comm: "a", exe: "/bin/a", image: 100})
		table := h.table(Config{Include: include})
		scan(t, table)
		before, _, err := table.Lookup(id)
		require.NoError(t, err)
		h.add(fakeProcess{pid: 10, comm: "b", exe: "/bin/a", image: 100})
		require.Equal(t, ScanResult{Seen: 1, Changed: 1}, scan(t, table))
		p, inScope, err := table.Lookup(id)
		require.NoError(t, err)
		require.True(t, inScope)
		require.Equal(t, "b", p.Comm)
		if before != nil {
			require.Equal(t, before.CreationTime, p.CreationTime)
		}
	}
}

func TestScanBrokenOff(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	h.add(fakeProcess{pid: 11, exe: "/bin/a"})
	table := h.table(Config{})
	scan(t, table)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := table.Scan(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, table.Stats().Known)
	require.Equal(t, uint64(1), table.Stats().Scans)
}

func TestMaxProcesses(t *testing.T) {
	h := newFakeHost(t)
	ids := []model.ProcessID{}
	for pid := uint32(10); pid < 15; pid++ {
		ids = append(ids, h.add(fakeProcess{pid: pid, exe: "/bin/a"}))
	}
	table := h.table(Config{MaxProcesses: 3})
	require.Equal(t, ScanResult{Seen: 5, Added: 3}, scan(t, table))
	require.Equal(t, 3, table.Stats().Known)
	require.Equal(t, uint64(2), table.Stats().Untracked)
	table.Fork(10, model.ProcessID{PID: 20, StartTicks: 20})
	require.Equal(t, 3, table.Stats().Known)
	for _, id := range ids { // there is an answer even so
		p, inScope, err := table.Lookup(id)
		require.NoError(t, err)
		require.True(t, inScope)
		require.Equal(t, id, p.ID)
	}
	require.Equal(t, 3, table.Stats().Known)
}

func TestReadErrorsAreCounted(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	h.write("proc/11/stat", "rubbish")
	big := strings.Repeat("x", maxEnvironment)
	id := h.add(fakeProcess{pid: 12, exe: "/bin/a", env: []string{"OTEL_SERVICE_NAME=a", big}})
	h.add(fakeProcess{pid: 13, exe: "/bin/a"})
	require.NoError(t, os.Remove(filepath.Join(h.root, "proc/13/environ")))
	require.NoError(t, os.Mkdir(filepath.Join(h.root, "proc/13/environ"), 0o755))
	h.add(fakeProcess{pid: 14, exe: "/bin/a", netns: 99})
	line := socketLine(53, "0A", 20) + "\n"
	h.write("proc/14/net/tcp", "heading\n"+strings.Repeat(line, maxSocketTable/len(line)+10))
	core, logs := observer.New(zapcore.WarnLevel)
	table := h.table(Config{Include: []Selector{{Port: 80}, {Exe: "/bin/a"}}, Logger: zap.New(core)})
	require.Equal(t, ScanResult{Seen: 4, Added: 4}, scan(t, table))
	p, _, err := table.Lookup(id)
	require.NoError(t, err)
	require.Equal(t, "a", p.ServiceName)
	require.Equal(t, map[ReadError]uint64{
		{File: "stat", Reason: "malformed"}: 1, {File: "environ", Reason: "too_large"}: 1,
		{File: "environ", Reason: "io"}: 1, {File: "net/tcp", Reason: "too_large"}: 1,
	}, table.Stats().ReadErrors)
	_, _, err = table.LookupPID(11)
	require.ErrorContains(t, err, "/proc/11/stat: ")
	require.NotErrorIs(t, err, ErrGone)

	table.Close()
	warned := warnings(logs)
	path := "reading " + h.root + "/proc/"
	for _, want := range []string{
		path + "11/stat: ", path + "12/environ: it has more than 2097152 bytes; what is beyond is left out",
		path + "13/environ: is a directory", path + "14/net/tcp: it has more sockets than are read; what is beyond is left out",
	} {
		require.True(t, slices.ContainsFunc(warned, func(text string) bool { return strings.HasPrefix(text, want) }), "%s: %q", want, warned)
	}
	require.Len(t, warned, 4)
}

// warnings are the errors of which the log tells, each once however often it does.
func warnings(logs *observer.ObservedLogs) (texts []string) {
	for _, entry := range logs.FilterMessage("Part of a process could not be read").TakeAll() {
		fields := entry.ContextMap()
		texts = append(texts, fields["error"].(string))
		further, _ := fields["further_errors"].([]any)
		for _, text := range further {
			texts = append(texts, text.(string))
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// TestReadErrorsOfMissingCapability holds that a file that may not be read of any process is warned of once, not at each scan.
func TestReadErrorsOfMissingCapability(t *testing.T) {
	h := newFakeHost(t)
	h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	h.add(fakeProcess{pid: 11, exe: "/bin/a"})
	core, logs := observer.New(zapcore.WarnLevel)
	table := h.table(Config{Logger: zap.New(core)})
	for pid := range uint32(2) {
		err := table.fs.tolerate(10+pid, "environ", syscall.EACCES)
		require.NoError(t, err, "the rest is read")
	}
	table.Close()
	require.Equal(t, []string{"reading " + h.root + "/proc/10/environ: permission denied; other processes of which it may not be read are only counted"}, warnings(logs))
	require.Equal(t, map[ReadError]uint64{{File: "environ", Reason: "permission"}: 2}, table.Stats().ReadErrors)
}
