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
	began := time.Now()
	table := h.table(Config{})
	stop := time.Since(began) // at most, between two looks at clocks
	p, inScope, err := table.Lookup(id)
	require.NoError(t, err)
	require.True(t, inScope)
	began = time.Now()
	boot, err := readBootOffset()
	require.NoError(t, err)
	stop = max(stop, time.Since(began))
	require.WithinDuration(t, time.Unix(50, boot), p.CreationTime, time.Second+stop)
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
	require.EqualError(t, err, "process 10 (started at tick 4999): the process has exited")
	_, _, err = table.Lookup(model.ProcessID{PID: 11, StartTicks: 1})
	require.ErrorIs(t, err, ErrGone)
	_, _, err = table.LookupPID(11)
	require.ErrorIs(t, err, ErrGone)
	require.Empty(t, table.Stats().ReadErrors, "ending is no error")

	// The pid is reused: the older process is not known any more.
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
	require.Equal(t, instance(c), instance(d), "of one executable")
	require.Equal(t, uuid.NewSHA1(instanceNamespace, []byte(fakeBootID+"\x00unknown_service:c\x00/bin/c")).String(), instance(c))
	require.Equal(t, "x-1", instance(e))
}

// TestInstanceOutlivesRestart checks that a service.instance.id is stable over restarts of the service and the host, and differs by host,
// service.name and executable; also for a process that exited before it was read.
func TestInstanceOutlivesRestart(t *testing.T) {
	const machine = "0123456789abcdef0123456789abcdef"
	include := []Selector{{Comm: "^other$", Set: map[string]string{"service.name": "set"}}, {Comm: "."}}
	of := func(machineID, boot string, p fakeProcess) string {
		h := newFakeHost(t)
		h.write("etc/machine-id", machineID+"\n")
		h.write("proc/sys/kernel/random/boot_id", boot+"\n")
		id := h.add(p)
		known, inScope, err := h.table(Config{Include: include}).Lookup(id)
		require.NoError(t, err)
		require.True(t, inScope)
		return known.ServiceInstanceID
	}
	shop := []string{"OTEL_SERVICE_NAME=shop"}
	first := of(machine, "a", fakeProcess{pid: 10, exe: "/bin/a", env: shop})
	require.Equal(t, first, of(machine, "b", fakeProcess{pid: 99, exe: "/bin/a", env: shop}))
	others := map[string]bool{
		first: true, of(strings.Repeat("f", 32), "a", fakeProcess{pid: 10, exe: "/bin/a", env: shop}): true,
		of(machine, "a", fakeProcess{pid: 10, exe: "/usr/bin/a", env: shop}): true, of(machine, "a", fakeProcess{pid: 10, exe: "/bin/a"}): true,
		of(machine, "a", fakeProcess{pid: 10, exe: "/bin/a", comm: "other"}): true,
	}
	require.Len(t, others, 5)
	require.NotEqual(t, of("uninitialized", "a", fakeProcess{pid: 10, exe: "/bin/a"}), of("uninitialized", "b", fakeProcess{pid: 10, exe: "/bin/a"}),
		"without a machine id it is one of the boot")

	h := newFakeHost(t)
	h.write("etc/machine-id", machine+"\n")
	shell := h.add(fakeProcess{pid: 10, exe: "/bin/sh", env: shop})
	table := h.table(Config{})
	_, _, err := table.Lookup(shell)
	require.NoError(t, err)
	table.Fork(10, pid(20), 0)
	table.Exec(pid(20), Execution{Comm: "a", ExecID: 2, Executable: "/bin/a", Environment: []byte("OTEL_SERVICE_NAME=shop\x00"), EnvironmentWhole: true})
	table.Exit(pid(20))
	unread, _, err := table.Lookup(pid(20))
	require.NoError(t, err)
	require.Equal(t, "/bin/a", unread.Executable)
	require.Equal(t, first, unread.ServiceInstanceID)
	unknown := &model.Process{ID: pid(20), Comm: "a"}
	table.Describe(unknown, 2)
	require.Equal(t, first, unknown.ServiceInstanceID)

	server := h.add(fakeProcess{pid: 30, exe: "/bin/a", env: shop})
	table.Fork(10, server, 0)
	table.Exec(server, Execution{Comm: "a", ExecID: 2, Executable: "/bin/a", Environment: []byte("OTEL_SERVICE_NAME=shop\x00"), EnvironmentWhole: true})
	_, _, err = table.Lookup(server)
	require.NoError(t, err)
	table.Fork(30, pid(40), 2) // serves a request, and exits before it is read
	table.Exit(pid(40))
	read := h.add(fakeProcess{pid: 50, exe: "/bin/a", env: shop}) // or is read, and over before that can be compared with its program
	table.Fork(30, read, 2)
	_, _, err = table.Lookup(read)
	require.NoError(t, err)
	for _, id := range []model.ProcessID{pid(40), read} {
		unknown = &model.Process{ID: id, Comm: "a"}
		table.Describe(unknown, 2)
		require.Equal(t, []string{"/bin/a", "shop", first}, []string{unknown.Executable, unknown.ServiceName, unknown.ServiceInstanceID})
		require.Equal(t, []any{id, "a"}, []any{unknown.ID, unknown.Comm})
		table.Describe(unknown, 3)
		require.Empty(t, unknown.Executable, "of another program")
	}
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

	// Both run another program, without an event.
	changes = nil
	h.add(fakeProcess{pid: 10, exe: "/bin/c", image: 200})
	h.add(fakeProcess{pid: 11, exe: "/bin/a", image: 200})
	require.Equal(t, ScanResult{Seen: 2, Changed: 2}, scan(t, table))
	require.ElementsMatch(t, []Change{{a, Executed}, {b, Added}}, changes)
	require.Equal(t, "/bin/c", processes(table)[0].Executable)

	// One exits, the pid of the other is reused.
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
	table.Fork(10, model.ProcessID{PID: 20, StartTicks: 20}, 0)
	require.Equal(t, 3, table.Stats().Known)
	for _, id := range ids { // there is an answer nevertheless
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
	table := h.table(Config{Include: []Selector{{Port: 80}, {Exe: "/bin/a"}}, Logger: zap.New(core),
		Now: newClock().now}) // which stands still: after a second the sockets are read again
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

// warnings are the errors in the log, each once however often it is logged.
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

// TestReadErrorsOfMissingCapability checks that a file that may not be read of any process is warned of once, not at each scan.
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
	require.Equal(t, []string{"reading " + h.root + "/proc/10/environ: permission denied: without its environment the process's service.name is unknown_service where no selector sets one. " +
		"Grant CAP_SYS_PTRACE; where the Collector has it, a security module or a user namespace denies it. Other processes of which it may not be read are only counted"}, warnings(logs))
	require.Equal(t, map[ReadError]uint64{{File: "environ", Reason: "permission"}: 2}, table.Stats().ReadErrors)
}
