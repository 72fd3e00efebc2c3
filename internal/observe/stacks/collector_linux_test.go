// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
)

// sampled counts samples that were taken every 9 ms.
var sampled = Shape{
	Kind:       "on_cpu",
	Sums:       []Sum{{ValueType: model.ValueType{Type: "samples", Unit: "count"}, Of: Count}},
	PeriodType: model.ValueType{Type: "cpu", Unit: "nanoseconds"},
	Period:     9 * time.Millisecond,
}

// maxSamples is how many samples without frames the fake's interval holds.
const maxSamples = 1000

// cutAtFour exports four frames of a stack.
var cutAtFour = Depth{User: Cut{Asked: 5, Exported: 4}, Kernel: Cut{Asked: 5, Exported: 4}}

func newFake() (*observetest.Host, *Collector) {
	h := observetest.NewHost()
	return h, NewCollector(h, sampled, cutAtFour, maxSamples*sampleBytes)
}

// report returns the profiles by pid and then period.
func report(c *Collector, until time.Time) []*model.Profile {
	profiles := c.Report(until).Profiles
	slices.SortFunc(profiles, func(a, b *model.Profile) int {
		return cmp.Or(cmp.Compare(a.Process.ID.PID, b.Process.ID.PID), cmp.Compare(a.Period, b.Period))
	})
	return profiles
}

func loss(c *Collector, reason string) uint64 {
	for _, l := range c.Losses() {
		if l.Reason == reason {
			return l.Count
		}
	}
	panic("no such reason: " + reason)
}

// TestNothingIsLostUncounted checks that each sample is reported, or counted as lost, or belongs to a process out of scope.
func TestNothingIsLostUncounted(t *testing.T) {
	h, c := newFake()
	h.Add(1, 0)
	h.Unknown = map[observe.SubjectKey]observe.Unknown{
		{PID: 2, StartBoottime: 1}: observe.Undecided,
		{PID: 3, StartBoottime: 1}: observe.TooMany,
	}
	seen, out := uint64(0), uint64(0)
	for drain := range uint64(3) {
		for pid := range uint32(4) {
			for hash := range uint64(5) {
				one := given{hash: hash, start: 1, pid: pid + 1, count: uint32(hash) + 2}
				c.Add(one.entry())
				seen += hash + 2
				if pid == 3 {
					out += hash + 2
				}
			}
		}
		require.Equal(t, (drain+1)*20, loss(c, "undecided"))
		require.Equal(t, (drain+1)*20, loss(c, "too_many"))
		c.Drained(time.Time{})
	}
	reported := uint64(0)
	for _, p := range report(c, c.since.Add(time.Second)) {
		require.EqualValues(t, 1, p.Process.ID.PID)
		for _, one := range p.Samples {
			reported += uint64(one.Values[0])
		}
	}
	require.EqualValues(t, 60, reported)
	require.Equal(t, seen, reported+out+loss(c, "undecided")+loss(c, "too_many"))
}

func TestCollectorMerges(t *testing.T) {
	h, c := newFake()
	one := h.Add(1, 0)
	one.Runs = model.Runtime{Language: model.FrameJVM, Names: model.NamesNone}
	h.Add(2, 0)
	stack := given{hash: 77, start: 1, pid: 1, tid: 10, count: 3, comm: "worker", user: []uint64{1, 2}, kernel: []uint64{9}}
	c.Add(stack.entry())
	stack.count = 4
	c.Add(stack.entry())
	other := given{hash: 78, start: 1, pid: 1, tid: 10, count: 1, comm: "worker", user: []uint64{3}}
	c.Add(other.entry())
	thread := given{hash: 77, start: 1, pid: 1, tid: 11, count: 5, comm: "other"}
	c.Add(thread.entry())
	process := given{hash: 77, start: 1, pid: 2, tid: 10, count: 6}
	c.Add(process.entry())

	start := c.since
	until := start.Add(5 * time.Second)
	profiles := report(c, until)
	require.Len(t, profiles, 2)
	p := profiles[0]
	require.Same(t, one.Named, p.Process)
	require.Equal(t, "on_cpu", p.Kind)
	require.Equal(t, []model.ValueType{{Type: "samples", Unit: "count"}}, p.SampleTypes)
	require.Equal(t, model.ValueType{Type: "cpu", Unit: "nanoseconds"}, p.PeriodType)
	require.Equal(t, int64(9_000_000), p.Period)
	require.Equal(t, start, p.Start)
	require.Equal(t, 5*time.Second, p.Duration)
	require.Empty(t, p.TaskID)
	require.Equal(t, one.Runs, p.Runtime)
	require.Zero(t, profiles[1].Runtime)
	require.Equal(t, []model.Sample{
		{ThreadID: 10, ThreadName: "worker", Values: []int64{7}, Frames: []*model.Frame{
			{Type: model.FrameKernel, Address: 9}, {Type: model.FrameNative, Address: 1}, {Type: model.FrameNative, Address: 2},
		}},
		{ThreadID: 10, ThreadName: "worker", Values: []int64{1}, Frames: []*model.Frame{{Type: model.FrameNative, Address: 3}}},
		{ThreadID: 11, ThreadName: "other", Values: []int64{5}, Frames: []*model.Frame{}},
	}, p.Samples)
	require.Equal(t, []int64{6}, profiles[1].Samples[0].Values)

	require.Empty(t, report(c, until.Add(time.Second)), "a report forgets")
	c.Add(stack.entry())
	next := report(c, until.Add(3*time.Second))
	require.Len(t, next, 1)
	require.Equal(t, []any{until.Add(time.Second), 2 * time.Second}, []any{next[0].Start, next[0].Duration})
}

func TestCollectorTellsProgramsApart(t *testing.T) {
	h, c := newFake()
	before, after := h.Add(1, 4), h.Add(1, 5)
	for exec := range uint32(2) {
		c.Add(given{hash: 7, start: 1, pid: 1, tid: 1, count: 1 + exec, execID: 4 + exec}.entry())
	}
	counts := map[*model.Process]int64{}
	for _, p := range c.Report(c.since).Profiles {
		counts[p.Process] = p.Samples[0].Values[0]
	}
	require.Equal(t, map[*model.Process]int64{before.Named: 1, after.Named: 2}, counts)
}

func TestCollectorStackErrors(t *testing.T) {
	h, c := newFake()
	h.Add(1, 0)
	h.Add(2, 0).Ended = true
	deep := []uint64{1, 2, 3, 4, 5}
	for i, g := range []given{
		{pid: 1, user: deep[:4], kernel: deep[:4]},
		{pid: 1, user: deep},
		{pid: 1, kernel: deep},
		{pid: 1, userErr: -14, kernel: deep[:1]},
		{pid: 1, user: deep, kernelErr: -14},
		{pid: 2, user: deep[:1]},
		{pid: 2, kernel: deep[:1]},
	} {
		g.start, g.hash, g.count = 1, uint64(i), 10
		c.Add(g.entry())
	}
	profiles := report(c, c.since)
	var got []any
	for _, p := range profiles {
		for _, s := range p.Samples {
			got = append(got, s.Error, len(s.Frames))
		}
	}
	require.Equal(t, []any{
		model.StackWhole, 8,
		model.StackCut, 4,
		model.StackCut, 4,
		model.StackFault, 1,
		model.StackFault, 4,
		model.StackNoMappings, 1,
		model.StackWhole, 1, // nothing of it needs the mappings
	}, got)
	require.Equal(t, uint64(20), loss(c, "stack_cut"), "samples, not entries; a stack with a fault is counted there")
	require.Equal(t, uint64(20), loss(c, "process_exited"))
	require.Equal(t, uint64(20), loss(c, "stack_fault"))

	out := given{pid: 3, start: 1, count: 10, userErr: -14} // out of scope
	c.Add(out.entry())
	require.Equal(t, uint64(20), loss(c, "stack_fault"), "what others lose does not count")

	for range 2 {
		c.Add(given{pid: 1, start: 1, hash: 7, count: 10, user: deep}.entry())
	}
	require.Equal(t, uint64(40), loss(c, "stack_cut"), "each time that it is seen")
}

// TestCollectorStackAstray checks that a stack is not exported as complete if its end was no longer code when it was named, as after a
// library was unloaded; what was wrong with it before stays.
func TestCollectorStackAstray(t *testing.T) {
	h, c := newFake()
	h.Add(1, 0).Astray = 2
	for i, end := range []bindings.OnCPUUnwindEnd{bindings.OnCPUUnwindEndUNWIND_END_ROOT, bindings.OnCPUUnwindEndUNWIND_END_NO_TABLE} {
		e := given{hash: uint64(i + 1), start: 1, pid: 1, count: 1, user: []uint64{1, 2, 3}}.entry()
		e.UserEnd = uint32(end)
		c.Add(e)
	}
	var got []any
	for _, s := range report(c, c.since.Add(time.Second))[0].Samples {
		got = append(got, s.Error, len(s.Frames))
	}
	require.Equal(t, []any{model.StackBadFrame, 1, model.StackNoTable, 1}, got)
}

func TestCollectorLeavesOutStrangers(t *testing.T) {
	h, c := newFake()
	e := given{hash: 1, start: 1, pid: 3, tid: 3, count: 1}.entry()
	c.Add(e)
	c.Add(e)
	require.Len(t, h.Asked, 1, "the host is asked once")
	c.Drained(time.Time{})
	h.Add(3, 0) // it came into scope
	c.Add(e)
	require.Len(t, h.Asked, 2, "and again in the next drain")
	profiles := report(c, c.since)
	require.Len(t, profiles, 1)
	require.Equal(t, []int64{1}, profiles[0].Samples[0].Values)
	require.Zero(t, loss(c, "interval_full"))
}

func TestCollectorBoundsTheInterval(t *testing.T) {
	h, c := newFake()
	h.Add(1, 0)
	e := given{start: 1, pid: 1, count: 1}.entry()
	for i := range maxSamples + 10 {
		e.Hash = uint64(i)
		c.Add(e)
	}
	require.Equal(t, uint64(10), loss(c, "interval_full"))
	e.Hash, e.Count = 5, 3
	c.Add(e)
	require.Equal(t, uint64(10), loss(c, "interval_full"), "what is known already still counts")

	before := len(c.subjects)
	for pid := uint32(100); pid < 1100; pid++ {
		h.Add(pid, 0)
		c.Add(given{start: 1, pid: pid, count: 2}.entry())
	}
	require.Equal(t, uint64(10+2000), loss(c, "interval_full"))
	require.Len(t, c.subjects, before, "processes without a sample take no memory")

	profiles := report(c, c.since)
	require.Len(t, profiles, 1)
	require.Len(t, profiles[0].Samples, maxSamples)
	require.Equal(t, []int64{4}, profiles[0].Samples[5].Values)
	c.Add(e)
	require.Len(t, report(c, c.since), 1, "the next interval has room")
}

// TestCollectorPeriods checks that a sample is exported with the period with which it was taken.
func TestCollectorPeriods(t *testing.T) {
	h, c := newFake()
	h.Add(1, 0)
	e := given{hash: 1, start: 1, pid: 1, count: 5}.entry()
	c.Add(e)
	began := c.since
	c.SetPeriod(18 * time.Millisecond)
	e.Count = 2
	c.Add(e)
	profiles := report(c, began)
	require.Len(t, profiles, 2)
	require.Equal(t, []int64{9_000_000, 5}, []int64{profiles[0].Period, profiles[0].Samples[0].Values[0]})
	require.Equal(t, []int64{18_000_000, 2}, []int64{profiles[1].Period, profiles[1].Samples[0].Values[0]})
	require.WithinDuration(t, profiles[0].Start.Add(profiles[0].Duration), profiles[1].Start, time.Microsecond)
	require.Zero(t, profiles[1].Duration, "the report's clock may be older than the change")
	require.Empty(t, report(c, c.since))
}

// TestCollectorInterval checks that a profile ends where the drain did that read its samples, whenever it is reported.
func TestCollectorInterval(t *testing.T) {
	h, c := newFake()
	h.Add(1, 0)
	e := given{hash: 1, start: 1, pid: 1, count: 5}.entry()
	began := c.since
	for second := range time.Duration(2) {
		c.Add(e)
		drained := began.Add((second + 1) * time.Second)
		c.Drained(drained)
		profiles := report(c, drained.Add(700*time.Millisecond))
		require.Len(t, profiles, 1)
		require.Equal(t, []any{drained.Add(-time.Second), time.Second}, []any{profiles[0].Start, profiles[0].Duration})
	}
}

// TestCollectorSums checks that each value is summed by itself, that lost observations are counted as such and not by what
// they weigh, and that a kind may say more about a sample.
func TestCollectorSums(t *testing.T) {
	h := observetest.NewHost()
	h.Add(1, 0)
	shape := Shape{
		Kind: "memory",
		Sums: []Sum{
			{ValueType: model.ValueType{Type: "alloc_space", Unit: "bytes"}, Of: First},
			{ValueType: model.ValueType{Type: "alloc_objects", Unit: "count"}, Of: Second},
		},
		Describe: func(e *Entry, s *model.Sample) { s.ThreadName = fmt.Sprint(s.ThreadName, e.Tag) },
	}
	c := NewCollector(h, shape, cutAtFour, sampleBytes)
	e := given{hash: 1, start: 1, pid: 1, tid: 2, count: 3, tag: 6, comm: "a", values: [2]uint64{4096, 5}}
	c.Add(e.entry())
	e.values = [2]uint64{100, 1}
	c.Add(e.entry())
	e.hash = 2
	c.Add(e.entry())
	require.Equal(t, uint64(3), loss(c, "interval_full"))
	profiles := c.Report(c.since).Profiles
	require.Len(t, profiles, 1)
	require.Equal(t, "memory", profiles[0].Kind)
	require.Equal(t, []model.ValueType{{Type: "alloc_space", Unit: "bytes"}, {Type: "alloc_objects", Unit: "count"}}, profiles[0].SampleTypes)
	require.Zero(t, profiles[0].PeriodType)
	require.Zero(t, profiles[0].Period)
	require.Equal(t, []model.Sample{{ThreadID: 2, ThreadName: "a6", Values: []int64{4196, 6}, Frames: []*model.Frame{}}}, profiles[0].Samples)
}

func TestComm(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"a":                     "a",
		"0123456789abcde":       "0123456789abcde",
		"0123456789abcdefghijk": "0123456789abcdef", // the kernel ends it earlier
		"a\x00b":                "a",
		"\xff\xfe":              "\xff\xfe",
	} {
		e := given{comm: in}.entry()
		require.Equal(t, want, e.comm())
	}
}

func TestFrameArena(t *testing.T) {
	var a frameArena
	frame := func(address uint64) *model.Frame { return &model.Frame{Address: address} }
	first := a.keep(append(a.room(2), frame(1), frame(2)))
	second := a.keep(append(a.room(3), frame(3)))
	require.Equal(t, 1, cap(second), "appending to it must not reach what follows")
	third := a.keep(append(a.room(1), frame(4)))
	require.Equal(t, []uint64{1, 2, 3, 4}, []uint64{first[0].Address, first[1].Address, second[0].Address, third[0].Address})
	require.Equal(t, frameArenaChunk, cap(a.free))
	require.Len(t, a.free, 4, "only what was kept is taken")

	require.Empty(t, a.keep(a.room(10)))
	require.Len(t, a.free, 4)
	more := a.room(1)
	for i := range uint64(2 * frameArenaChunk) { // more than there was room for
		more = append(more, frame(i))
	}
	kept := a.keep(more)
	require.Len(t, kept, 2*frameArenaChunk)
	require.Equal(t, uint64(4095), kept[4095].Address)
	require.Len(t, a.free, 4)
	large := a.keep(append(a.room(frameArenaChunk+1), frame(9)))
	require.Equal(t, uint64(9), large[0].Address)
	require.Equal(t, uint64(1), first[0].Address, "old chunks stay")
}
