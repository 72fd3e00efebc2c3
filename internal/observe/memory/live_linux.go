// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

const (
	// liveBytes is what an entry of the map costs the kernel.
	liveBytes = 128
	// minLive and maxLive bound the entries: at the usual distance as many stand for
	// 2 and 128 GiB.
	minLive, maxLive = 4096, 262144
	// liveBatch is how many entries are read by one system call.
	liveBatch = 1024
	// callSiteBytes is the memory of a call site without its frames.
	callSiteBytes = 250
	// callSiteReports is for how many reports a call site is kept without memory in use: a call may be
	// reported before the address that it returns.
	callSiteReports = 2
)

// liveEntries is how many allocations are tracked in so much memory.
func liveEntries(bytes uint64) uint32 { return uint32(min(max(bytes/liveBytes, minLive), maxLive)) }

// liveSet knows which sampled allocations were not freed. The kernel keeps them by
// address; where each was made is remembered here, by the hash of its stack.
type liveSet struct {
	host   observe.Host
	kernel *ebpf.Map
	// callSites is used only by the goroutine that drains and reports.
	callSites map[callSiteKey]*callSite
	maxBytes  uint64

	held, unknown atomic.Uint64

	// reading is held while what is over is removed from the kernel's map.
	reading sync.Mutex
	mu      sync.Mutex                 // all below; the inner one
	ended   map[model.ProcessID]uint32 // programs that are over: the exec id that is not
}

// callSiteKey identifies a call site in a program.
type callSiteKey struct {
	program observe.SubjectKey
	hash    uint64
}

// callSite is where memory was allocated: a stack of a process.
type callSite struct {
	subject observe.Subject
	sample  model.Sample // without values
	unused  int          // reports in a row without anything in use
}

func newLiveSet(host observe.Host, maxBytes uint64) *liveSet {
	return &liveSet{host: host, maxBytes: maxBytes, callSites: map[callSiteKey]*callSite{}, ended: map[model.ProcessID]uint32{}}
}

func (l *liveSet) open(kernel *ebpf.Map) { l.kernel = kernel }

// remember keeps the call site of a sample that was drained.
func (l *liveSet) remember(e *stacks.Entry, sample *model.Sample) {
	key := callSiteKey{observe.SubjectKey{PID: e.Pid, StartBoottime: e.StartBoottime, ExecID: e.ExecId}, e.Hash}
	size := callSiteBytes + 8*uint64(len(sample.Frames))
	if _, ok := l.callSites[key]; ok || l.held.Load()+size > l.maxBytes {
		return
	}
	subject, _ := l.host.Subject(key.program, sample.ThreadName)
	if subject == nil {
		return
	}
	kept := *sample
	kept.Frames = slices.Clone(sample.Frames) // the interval's own memory goes with it
	kept.Values = nil
	l.callSites[key] = &callSite{subject: subject, sample: kept}
	l.held.Add(size)
}

// over notes that the programs that a process ran before the exec id now have ended.
func (l *liveSet) over(id model.ProcessID, now uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[id] = max(l.ended[id], now)
}

// left notes that a process is not observed any more: what it frees from now on is not seen, so
// that what it has in use is not known.
func (l *liveSet) left(id model.ProcessID) { l.over(id, math.MaxUint32) }

// discovered notes that a process is observed from now on. What it had in use when it was left is
// dropped, if that has not gone with a report.
func (l *liveSet) discovered(id model.ProcessID) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	_, left := l.ended[id]
	delete(l.ended, id)
	l.mu.Unlock()
	if !left {
		return nil
	}
	var all []bindings.MemoryMallocLiveKey
	err := l.each(func(key bindings.MemoryMallocLiveKey, _ bindings.MemoryMallocLiveAllocation) {
		if key.Pid == id.PID {
			all = append(all, key)
		}
	})
	return errors.Join(err, l.remove(all))
}

// sum is the memory in use of one call site, with the estimator's binary places.
type sum struct{ bytes, objects uint64 }

// report returns what is in use now, one profile for each program.
func (l *liveSet) report(since, until time.Time, distance int64) ([]*model.Profile, error) {
	sums, err := l.read()
	profiles := map[observe.SubjectKey]*model.Profile{}
	for key, inUse := range sums {
		at := l.callSites[key]
		if at == nil {
			l.unknown.Add(1)
			continue
		}
		at.unused = 0
		p := profiles[key.program]
		if p == nil {
			p = &model.Profile{
				Process: at.subject.Process(), Runtime: at.subject.Runtime(), Kind: string(Name),
				SampleTypes: []model.ValueType{{Type: "inuse_space", Unit: "bytes"}, {Type: "inuse_objects", Unit: "count"}},
				PeriodType:  periodType, Period: distance,
				Start: since, Duration: max(until.Sub(since), 0),
			}
			profiles[key.program] = p
		}
		sample := at.sample
		sample.Values = []int64{
			int64(whole(inUse.bytes, bytesBits, rand.Uint32())), int64(whole(inUse.objects, weightBits, rand.Uint32())),
		}
		p.Samples = append(p.Samples, sample)
	}
	l.forget(sums)
	all := make([]*model.Profile, 0, len(profiles))
	for _, p := range profiles {
		if p.Process != nil {
			all = append(all, p)
		}
	}
	return all, err
}

// forget drops the call sites without memory in use for some time.
func (l *liveSet) forget(sums map[callSiteKey]sum) {
	for key, at := range l.callSites {
		if _, used := sums[key]; used {
			continue
		}
		if at.unused++; at.unused >= callSiteReports {
			l.held.Add(-(callSiteBytes + 8*uint64(len(at.sample.Frames))))
			delete(l.callSites, key)
		}
	}
}

// read sums the kernel's map by call site, and removes what ended programs left behind.
func (l *liveSet) read() (map[callSiteKey]sum, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	ended := l.ended
	l.ended = map[model.ProcessID]uint32{}
	l.mu.Unlock()
	sums := map[callSiteKey]sum{}
	var left []bindings.MemoryMallocLiveKey
	err := l.each(func(key bindings.MemoryMallocLiveKey, made bindings.MemoryMallocLiveAllocation) {
		program := observe.SubjectKey{PID: key.Pid, StartBoottime: made.StartBoottime, ExecID: made.ExecId}
		if now, over := ended[program.ID()]; over && made.ExecId < now {
			left = append(left, key)
			return
		}
		at := callSiteKey{program, made.Hash}
		total := sums[at]
		total.bytes += weighted(made.Size, made.Weight)
		total.objects += made.Weight
		sums[at] = total
	})
	return sums, errors.Join(err, l.remove(left))
}

// each calls visit with every entry of the kernel's map. One that is freed
// meanwhile may be among them or not.
func (l *liveSet) each(visit func(bindings.MemoryMallocLiveKey, bindings.MemoryMallocLiveAllocation)) error {
	keys := make([]bindings.MemoryMallocLiveKey, liveBatch)
	values := make([]bindings.MemoryMallocLiveAllocation, liveBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := l.kernel.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			visit(keys[i], values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil // that was all
		}
		if err != nil {
			return fmt.Errorf("reading the map of what is in use: %w", err)
		}
	}
}

func (l *liveSet) remove(keys []bindings.MemoryMallocLiveKey) error {
	for _, key := range keys {
		if err := l.kernel.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("clearing the map of what is in use: %w", err)
		}
	}
	return nil
}

// clear forgets everything.
func (l *liveSet) clear() error {
	clear(l.callSites)
	l.held.Store(0)
	var all []bindings.MemoryMallocLiveKey
	err := l.each(func(key bindings.MemoryMallocLiveKey, _ bindings.MemoryMallocLiveAllocation) { all = append(all, key) })
	return errors.Join(err, l.remove(all))
}

// idle forgets which programs have ended, when there is no report.
func (l *liveSet) idle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.ended)
}
