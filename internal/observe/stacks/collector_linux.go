// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// sampleBytes is the memory of a sample without its frames: the value itself, its entry
// in the index, the name and the count.
const sampleBytes = 200

// Collector turns the kernel's entries into the interval's profiles. Its methods
// are called from one goroutine, but for Losses and HeldBytes.
type Collector struct {
	host  observe.Host
	depth Depth
	shape Shape

	since time.Time
	// drained is until when what was added was taken; zero before the first drain.
	drained  time.Time
	subjects map[observe.SubjectKey]*collected
	// maxBytes bounds what the interval holds; what is beyond it is counted as
	// lost. held may be read from any goroutine.
	maxBytes uint64
	held     atomic.Uint64
	frames   frameArena
	// earlier profiles of the interval were taken at another period.
	earlier []*model.Profile

	faults, cut, nameless, full, undecided, crowded atomic.Uint64
	// ends counts user stacks by why they are not whole.
	ends [len(stackEnds)]atomic.Uint64
}

// collected is what was seen of one process in the interval; nil when the process
// is out of scope.
type collected struct {
	// lost counts the samples of a process that is not known to be in or out of scope; all other
	// fields are zero then.
	lost    *atomic.Uint64
	subject observe.Subject
	profile *model.Profile
	index   map[sampleKey]int // into profile.Samples
}

type sampleKey struct {
	hash uint64
	tid  uint32
}

// NewCollector returns a collector that holds at most maxBytes of an interval.
func NewCollector(host observe.Host, shape Shape, depth Depth, maxBytes uint64) *Collector {
	return &Collector{
		host: host, depth: depth, shape: shape, maxBytes: maxBytes,
		since:    time.Now(),
		subjects: map[observe.SubjectKey]*collected{},
	}
}

// Begin notes that what is added was taken from now on, and not since the collector was
// made.
func (c *Collector) Begin() { c.since = time.Now() }

// SetPeriod says at which period the next entries were taken, those since the last drain included.
func (c *Collector) SetPeriod(period time.Duration) {
	c.earlier = c.take(time.Now())
	c.shape.Period = period
}

// Add takes one entry of a table.
func (c *Collector) Add(e Entry) {
	subjectKey := e.subject()
	seen, ok := c.subjects[subjectKey]
	if !ok {
		seen = c.discover(subjectKey, &e)
	}
	if seen == nil {
		return
	}
	if seen.lost != nil {
		seen.lost.Add(uint64(e.Count))
		return
	}
	if seen.subject.Gone() {
		c.nameless.Add(uint64(e.Count))
	}
	c.ends[e.end()].Add(uint64(e.Count))
	if e.UserFrames < 0 || e.KernelFrames < 0 {
		c.faults.Add(uint64(e.Count))
	}
	key := sampleKey{hash: e.Hash, tid: e.Tid}
	if at, ok := seen.index[key]; ok {
		same := &seen.profile.Samples[at]
		c.shape.addTo(same.Values, &e)
		if same.Error == model.StackCut {
			c.cut.Add(uint64(e.Count))
		}
		return
	}
	if c.isFull() {
		c.full.Add(uint64(e.Count))
		return
	}
	c.held.Add(sampleBytes + 8*uint64(len(e.User)+len(e.Kernel)))
	seen.index[key] = len(seen.profile.Samples)
	seen.profile.Samples = append(seen.profile.Samples, c.sample(&e, seen.subject))
}

// discover determines the sampled process and remembers the result; it returns nil if
// the process is out of scope or there is no capacity for a sample of it.
func (c *Collector) discover(key observe.SubjectKey, e *Entry) *collected {
	subject, why := c.host.Subject(key, e.comm())
	if subject == nil {
		c.subjects[key] = c.unknown(why)
		return c.subjects[key]
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
			Kind:        string(c.shape.Kind),
			SampleTypes: c.shape.types(),
			PeriodType:  c.shape.PeriodType,
		},
	}
	c.subjects[key] = seen
	return seen
}

// unknown stands for who is not in scope, or not known to be.
func (c *Collector) unknown(why observe.Unknown) *collected {
	switch why {
	case observe.Undecided:
		return &collected{lost: &c.undecided}
	case observe.TooMany:
		return &collected{lost: &c.crowded}
	}
	return nil
}

func (c *Collector) isFull() bool { return c.held.Load() >= c.maxBytes }

// Drained notes that all tables have been read, and until when they were written. Processes out of scope are asked
// about again next time: they may have come into scope.
func (c *Collector) Drained(until time.Time) {
	c.drained = until
	maps.DeleteFunc(c.subjects, func(_ observe.SubjectKey, seen *collected) bool { return seen == nil || seen.lost != nil })
}

func (c *Collector) sample(e *Entry, subject observe.Subject) model.Sample {
	user, userCut := c.depth.User.trim(e.User)
	kernel, kernelCut := c.depth.Kernel.trim(e.Kernel)
	caller := e.Caller
	if len(user) >= c.depth.User.Exported {
		caller = 0 // no capacity for its frame
	}
	frames := c.frames.room(len(user) + 1 + len(kernel))
	frames = c.host.KernelFrames(frames, kernel)
	before := len(frames)
	frames = subject.UserFrames(frames, user, caller)
	ledAstray := len(frames)-before < len(user)
	sample := model.Sample{
		ThreadID:   e.Tid,
		ThreadName: e.comm(),
		Frames:     c.frames.keep(frames),
		Values:     c.shape.values(e),
	}
	switch {
	case e.UserFrames < 0 || e.KernelFrames < 0:
		sample.Error = model.StackFault
	case userCut || kernelCut || e.end() == bindings.OnCPUUnwindEndUNWIND_END_CUT:
		sample.Error = model.StackCut
		c.cut.Add(uint64(e.Count))
	case subject.Gone() && len(user) > 0:
		sample.Error = model.StackNoMappings
	case len(user) > 0:
		sample.Error = stackEnds[e.end()]
		if ledAstray && sample.Error == model.StackWhole {
			sample.Error = model.StackBadFrame
		}
	}
	if c.shape.Describe != nil {
		c.shape.Describe(e, &sample)
	}
	return sample
}

// Report returns the interval's profiles and begins a new one.
func (c *Collector) Report(until time.Time) model.Findings {
	profiles := c.take(until)
	c.earlier = nil
	c.held.Store(0)
	c.frames = frameArena{}
	return model.Findings{Profiles: profiles}
}

// take ends what was begun at since and returns it with what was taken earlier. A profile ends where the last drain did: what was
// taken since is in the next one.
func (c *Collector) take(until time.Time) []*model.Profile {
	if !c.drained.IsZero() {
		until = c.drained
	}
	if until.Before(c.since) {
		until = c.since // the period was changed after the caller read the clock
	}
	profiles := slices.Grow(c.earlier, len(c.subjects))
	for _, seen := range c.subjects {
		if seen == nil || seen.lost != nil || len(seen.profile.Samples) == 0 {
			continue
		}
		seen.profile.Runtime = seen.subject.Runtime()
		seen.profile.Period = c.shape.Period.Nanoseconds()
		seen.profile.Start = c.since
		seen.profile.Duration = until.Sub(c.since)
		profiles = append(profiles, seen.profile)
	}
	c.since = until
	c.subjects = make(map[observe.SubjectKey]*collected, len(c.subjects))
	return profiles
}

// HeldBytes is the memory of the interval's samples.
func (c *Collector) HeldBytes() uint64 { return c.held.Load() }

// Losses counts what could not be kept, or not whole.
func (c *Collector) Losses() []observe.Loss {
	probe := string(c.shape.Kind)
	return []observe.Loss{
		{Probe: probe, Reason: "stack_fault", Count: c.faults.Load(), Incomplete: true},
		{Probe: probe, Reason: "stack_unreadable", Count: c.ends[bindings.OnCPUUnwindEndUNWIND_END_UNREADABLE].Load(), Incomplete: true},
		{Probe: probe, Reason: "stack_cut", Count: c.cut.Load(), Incomplete: true},
		{Probe: "unwind", Reason: "no_unwind_table", Count: c.ends[bindings.OnCPUUnwindEndUNWIND_END_NO_TABLE].Load(), Incomplete: true},
		{Probe: "unwind", Reason: "bad_frame", Count: c.ends[bindings.OnCPUUnwindEndUNWIND_END_BAD_FRAME].Load(), Incomplete: true},
		{Probe: "unwind", Reason: "no_register", Count: c.ends[bindings.OnCPUUnwindEndUNWIND_END_REGISTER].Load(), Incomplete: true},
		{Probe: probe, Reason: "process_exited", Count: c.nameless.Load(), Incomplete: true},
		{Probe: probe, Reason: "interval_full", Count: c.full.Load()},
		{Probe: probe, Reason: string(observe.Undecided), Count: c.undecided.Load()},
		{Probe: probe, Reason: string(observe.TooMany), Count: c.crowded.Load()},
	}
}
