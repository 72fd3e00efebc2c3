// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"bytes"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// sampleBytes is the memory of a sample without its frames: the value itself, its
// place in the index, the name and the count.
const sampleBytes = 200

// collector turns the kernel's entries into the interval's profiles.
type collector struct {
	host   observe.Host
	depth  depth
	period time.Duration

	since    time.Time
	subjects map[observe.SubjectKey]*collected
	// maxBytes bounds what the interval holds; what is beyond it is counted as
	// lost. held may be read from any goroutine.
	maxBytes uint64
	held     atomic.Uint64
	frames   frameArena
	// earlier profiles of the interval were taken at another period.
	earlier []*model.Profile

	cut, nameless, full atomic.Uint64
	// ends counts user stacks by why they are not whole.
	ends [len(stackEnds)]atomic.Uint64
}

// stackEnds are the reasons of enum unwind_end.
var stackEnds = [...]model.StackError{
	bindings.OnCPUUnwindEndUNWIND_END_ROOT:       model.StackWhole,
	bindings.OnCPUUnwindEndUNWIND_END_CUT:        model.StackCut,
	bindings.OnCPUUnwindEndUNWIND_END_NO_TABLE:   model.StackNoTable,
	bindings.OnCPUUnwindEndUNWIND_END_UNREADABLE: model.StackUnreadable,
	bindings.OnCPUUnwindEndUNWIND_END_BAD_FRAME:  model.StackBadFrame,
	bindings.OnCPUUnwindEndUNWIND_END_REGISTER:   model.StackNoRegister,
}

// end is why the user stack ends where it does.
func (e *entry) end() bindings.OnCPUUnwindEnd {
	return min(bindings.OnCPUUnwindEnd(e.UserEnd), bindings.OnCPUUnwindEndUNWIND_END_REGISTER)
}

// collected is what was seen of one process in the interval; nil when the process
// is out of scope.
type collected struct {
	subject observe.Subject
	profile *model.Profile
	index   map[sampleKey]int // into profile.Samples
}

type sampleKey struct {
	hash uint64
	tid  uint32
}

func newCollector(host observe.Host, depth depth, period time.Duration, maxBytes uint64) *collector {
	return &collector{
		host: host, depth: depth, period: period, maxBytes: maxBytes,
		since:    time.Now(),
		subjects: map[observe.SubjectKey]*collected{},
	}
}

// setPeriod says at which period the samples of the next entries were taken.
func (c *collector) setPeriod(period time.Duration) {
	c.earlier = c.take(time.Now())
	c.period = period
}

// add takes one entry of a table.
func (c *collector) add(e entry) {
	subjectKey := observe.SubjectKey{PID: e.Pid, StartBoottime: e.StartBoottime, ExecID: e.ExecId}
	seen, ok := c.subjects[subjectKey]
	if !ok {
		seen = c.meet(subjectKey, &e)
	}
	if seen == nil {
		return
	}
	if seen.subject.Gone() {
		c.nameless.Add(uint64(e.Count))
	}
	c.ends[e.end()].Add(uint64(e.Count))
	key := sampleKey{hash: e.Hash, tid: e.Tid}
	if at, ok := seen.index[key]; ok {
		same := &seen.profile.Samples[at]
		same.Values[0] += int64(e.Count)
		if same.Error == model.StackCut {
			c.cut.Add(uint64(e.Count))
		}
		return
	}
	if c.isFull() {
		c.full.Add(uint64(e.Count))
		return
	}
	c.held.Add(sampleBytes + 8*uint64(len(e.user)+len(e.kernel)))
	seen.index[key] = len(seen.profile.Samples)
	seen.profile.Samples = append(seen.profile.Samples, c.sample(&e, seen.subject))
}

// meet asks who was sampled and remembers the answer; nil when it is out of
// scope or there is no room for a sample of it.
func (c *collector) meet(key observe.SubjectKey, e *entry) *collected {
	subject := c.host.Subject(key, comm(e))
	if subject == nil {
		c.subjects[key] = nil
		return nil
	}
	if c.isFull() {
		c.full.Add(uint64(e.Count))
		return nil
	}
	seen := &collected{
		subject: subject,
		index:   map[sampleKey]int{},
		profile: &model.Profile{
			Process:     subject.Process(),
			Kind:        string(observe.OnCPU),
			SampleTypes: []model.ValueType{{Type: "samples", Unit: "count"}},
			PeriodType:  model.ValueType{Type: "cpu", Unit: "nanoseconds"},
		},
	}
	c.subjects[key] = seen
	return seen
}

func (c *collector) isFull() bool { return c.held.Load() >= c.maxBytes }

// drained is told that all tables have been read. Who was out of scope is asked
// about again next time: it may have come into scope.
func (c *collector) drained() {
	maps.DeleteFunc(c.subjects, func(_ observe.SubjectKey, seen *collected) bool { return seen == nil })
}

func (c *collector) sample(e *entry, subject observe.Subject) model.Sample {
	user, userCut := c.trim(e.user)
	kernel, kernelCut := c.trim(e.kernel)
	caller := e.Caller
	if len(user) >= c.depth.told {
		caller = 0 // no room for its frame
	}
	frames := c.frames.room(len(user) + 1 + len(kernel))
	frames = c.host.KernelFrames(frames, kernel)
	frames = subject.UserFrames(frames, user, caller)
	sample := model.Sample{
		ThreadID:   e.Tid,
		ThreadName: comm(e),
		Frames:     c.frames.keep(frames),
		Values:     []int64{int64(e.Count)},
	}
	switch {
	case e.UserFrames < 0 || e.KernelFrames < 0:
		sample.Error = model.StackFault
	case userCut || kernelCut:
		sample.Error = model.StackCut
		c.cut.Add(uint64(e.Count))
	case subject.Gone() && len(user) > 0:
		sample.Error = model.StackNoMappings
	case len(user) > 0:
		sample.Error = stackEnds[e.end()]
	}
	return sample
}

// trim cuts a stack to the depth that is told and says whether it was deeper.
func (c *collector) trim(stack []uint64) ([]uint64, bool) {
	if len(stack) < c.depth.asked {
		return stack, false
	}
	return stack[:c.depth.told], true
}

// report returns the interval's profiles and begins a new one.
func (c *collector) report(until time.Time) []*model.Profile {
	profiles := c.take(until)
	c.earlier = nil
	c.held.Store(0)
	c.frames = frameArena{}
	return profiles
}

// take ends what was begun at since and returns it with what was taken earlier.
func (c *collector) take(until time.Time) []*model.Profile {
	if until.Before(c.since) {
		until = c.since // the period was changed after the caller looked at the clock
	}
	profiles := slices.Grow(c.earlier, len(c.subjects))
	for _, seen := range c.subjects {
		if seen == nil || len(seen.profile.Samples) == 0 {
			continue
		}
		seen.profile.Period = c.period.Nanoseconds()
		seen.profile.Start = c.since
		seen.profile.Duration = until.Sub(c.since)
		profiles = append(profiles, seen.profile)
	}
	c.since = until
	c.subjects = make(map[observe.SubjectKey]*collected, len(c.subjects))
	return profiles
}

func (c *collector) losses() []observe.Loss {
	return []observe.Loss{
		{Probe: "on_cpu", Reason: "stack_cut", Count: c.cut.Load(), Told: true},
		{Probe: "unwind", Reason: "no_unwind_table", Count: c.ends[bindings.OnCPUUnwindEndUNWIND_END_NO_TABLE].Load(), Told: true},
		{Probe: "unwind", Reason: "bad_frame", Count: c.ends[bindings.OnCPUUnwindEndUNWIND_END_BAD_FRAME].Load(), Told: true},
		{Probe: "unwind", Reason: "no_register", Count: c.ends[bindings.OnCPUUnwindEndUNWIND_END_REGISTER].Load(), Told: true},
		{Probe: "on_cpu", Reason: "process_exited", Count: c.nameless.Load(), Told: true},
		{Probe: "on_cpu", Reason: "interval_full", Count: c.full.Load()},
	}
}

// comm is what the kernel calls the thread.
func comm(e *entry) string {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&e.Comm[0])), len(e.Comm))
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	return string(raw)
}

// frameArena hands out the memory of an interval's stacks in large pieces: one
// allocation serves many stacks.
type frameArena struct {
	free []*model.Frame
}

const frameArenaChunk = 4096

// room returns an empty slice with space for n frames.
func (a *frameArena) room(n int) []*model.Frame {
	if cap(a.free)-len(a.free) < n {
		a.free = make([]*model.Frame, 0, max(frameArenaChunk, n))
	}
	return a.free[len(a.free):len(a.free):cap(a.free)]
}

// keep makes what was appended to the last room the caller's.
func (a *frameArena) keep(frames []*model.Frame) []*model.Frame {
	n := len(frames)
	if cap(a.free)-len(a.free) >= n && n > 0 && &frames[0] == &a.free[:len(a.free)+1][len(a.free)] {
		a.free = a.free[:len(a.free)+n]
	}
	return frames[:n:n]
}
