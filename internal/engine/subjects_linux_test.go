// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

func TestUnknownProcess(t *testing.T) {
	boot := time.Unix(1000, 0)
	s := withTable(t, process.Config{RootPath: fakeProc(t)})
	s.boot = func() (time.Time, error) { return boot, nil }
	key := observe.SubjectKey{PID: 7, StartBoottime: 12_345_678_901}
	// The UUIDs of version 5 of the host's id, service.name and comm in the name space that the semantic conventions give.
	instanceOf := func(service, comm string) string {
		return s.table.InstanceOf(&model.Process{ServiceName: service, Comm: comm})
	}
	require.Equal(t, &model.Process{
		ID: model.ProcessID{PID: 7, StartTicks: 1234}, Comm: "worker",
		ServiceName: "unknown_service:worker", ServiceInstanceID: instanceOf("unknown_service:worker", "worker"),
		CreationTime: boot.Add(12_345_678_901),
	}, s.describeExited(key, "worker"))
	s.boot = func() (time.Time, error) { return time.Time{}, errors.New("no clock") }
	require.Equal(t, &model.Process{
		ID: model.ProcessID{PID: 7, StartTicks: 1234}, ServiceName: "unknown_service", ServiceInstanceID: instanceOf("unknown_service", ""),
	}, s.describeExited(key, ""))
}

// TestCall holds that a name from the kernel stands where there is no better one, and nowhere else.
func TestCall(t *testing.T) {
	called := func(p *model.Process, comm string) *model.Process {
		var s subject
		s.process.Store(p)
		s.call(comm)
		return s.Process()
	}
	require.Nil(t, called(nil, "a"), "out of scope")
	require.Equal(t, &model.Process{Comm: "a", ServiceName: "unknown_service:a"}, called(&model.Process{ServiceName: "unknown_service"}, "a"))
	require.Equal(t, &model.Process{Comm: "a", ServiceName: "checkout"}, called(&model.Process{ServiceName: "checkout"}, "a"))
	for _, known := range []*model.Process{{Comm: "b"}, {Executable: "/bin/b"}} {
		require.Same(t, known, called(known, "a"))
	}
	nameless := &model.Process{ServiceName: "unknown_service"}
	require.Same(t, nameless, called(nameless, ""))
}

// TestEnds holds how long a program is remembered after its end.
func TestEnds(t *testing.T) {
	id := model.ProcessID{PID: 7, StartTicks: 1}
	before := observe.SubjectKey{PID: 7, StartBoottime: 10_000_000, ExecID: 1}
	after := observe.SubjectKey{PID: 7, StartBoottime: 10_000_000, ExecID: 2}
	s := &subjects{known: map[observe.SubjectKey]*subject{}, byProcess: map[model.ProcessID][]observe.SubjectKey{}}
	require.Equal(t, id, before.ID())
	for _, key := range []observe.SubjectKey{before, after} {
		kept, running := s.remember(key, &subject{})
		require.NotNil(t, kept)
		require.True(t, running)
	}
	s.ended(id, func(key observe.SubjectKey) bool { return key.ExecID == 2 })
	s.ended(id, func(key observe.SubjectKey) bool { return key.ExecID == 2 })
	require.Equal(t, []observe.SubjectKey{before}, s.ending)
	s.drained()
	require.Len(t, s.known, 2, "its last samples may be in the other table")
	s.drained()
	require.Equal(t, []observe.SubjectKey{after}, s.byProcess[id])
	require.Len(t, s.known, 1)
	require.Empty(t, s.ending)
	s.drained()
	require.Len(t, s.known, 1)
	require.Equal(t, []model.ProcessID{id}, s.processes())
	s.close()
	require.Empty(t, s.known)
	require.Empty(t, s.processes())
}

// TestWhatWasReadStays holds that a program which was read while it ran is not forgotten for what is known of it when it is
// discovered once more after its end, though its mappings were not read: it is in scope still, and has its name.
func TestWhatWasReadStays(t *testing.T) {
	key := observe.SubjectKey{PID: 7, StartBoottime: 10_000_000, ExecID: 1}
	for _, matchesAll := range []bool{true, false} {
		s := &subjects{known: map[observe.SubjectKey]*subject{}, byProcess: map[model.ProcessID][]observe.SubjectKey{}}
		read := &subject{program: 1}
		read.scope.set(lifecycle.ScopeNetwork)
		read.process.Store(&model.Process{ServiceName: "checkout"})
		s.remember(key, read)
		departed := &subject{ended: drainsAfterEnd}
		departed.lost.Store(true)
		if matchesAll {
			departed.scope.set(lifecycle.ScopeNetwork)
			departed.process.Store(&model.Process{ServiceName: "unknown_service"})
		}
		kept, _ := s.remember(key, departed)
		require.Same(t, read, kept)
		require.NotNil(t, kept.Process())
		require.Equal(t, "checkout", kept.Process().ServiceName)
	}
}

// TestUnknown holds that an observation gets the reason why a process is unknown, and none when it is known.
func TestUnknown(t *testing.T) {
	root := fakeProc(t)
	runProgram(t, root, 1000)
	s := withTable(t, process.Config{RootPath: root, Include: []process.Selector{{Comm: "^b$"}}})
	asking := host{s, lifecycle.ScopeOnCPU}
	gone := observe.SubjectKey{PID: 8, StartBoottime: 10_000_000}
	for range 2 {
		found, why := asking.Subject(gone, "b")
		require.Nil(t, found)
		require.Equal(t, observe.Undecided, why)
	}
	require.Len(t, s.known, 1, "one process")
	require.True(t, s.known[gone].undecided, "it counts when it is forgotten: the event of its exec may come")
	outside := s.subject()
	s.known[observe.SubjectKey{PID: 7, StartBoottime: 10_000_000}] = outside
	found, why := asking.Subject(observe.SubjectKey{PID: 7, StartBoottime: 10_000_000}, "a")
	require.Nil(t, found)
	require.Empty(t, why, "out of scope")
	outside.scope.set(lifecycle.ScopeOnCPU)
	found, why = asking.Subject(observe.SubjectKey{PID: 7, StartBoottime: 10_000_000}, "a")
	require.Same(t, outside, found)
	require.Empty(t, why)
	for i := range uint32(maxSubjects) {
		s.remember(observe.SubjectKey{PID: 100 + i}, &subject{})
	}
	found, why = asking.Subject(observe.SubjectKey{PID: 9, StartBoottime: 10_000_000}, "b")
	require.Nil(t, found)
	require.Equal(t, observe.TooMany, why)
}

// TestSubjectsAreBounded holds that programs beyond the bound are counted and not kept.
func TestSubjectsAreBounded(t *testing.T) {
	s := &subjects{known: map[observe.SubjectKey]*subject{}, byProcess: map[model.ProcessID][]observe.SubjectKey{}}
	for i := range uint32(maxSubjects) {
		s.remember(observe.SubjectKey{PID: i}, &subject{})
	}
	kept, _ := s.remember(observe.SubjectKey{PID: maxSubjects}, &subject{})
	require.Nil(t, kept)
	require.Equal(t, uint64(1), s.crowded.Load())
	again := &subject{}
	kept, running := s.remember(observe.SubjectKey{PID: 5}, again)
	require.Same(t, again, kept, "one that is known already may be met anew")
	require.True(t, running)
	require.Len(t, s.known, maxSubjects)
}
