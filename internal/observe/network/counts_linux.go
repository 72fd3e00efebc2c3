// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// valueEntries bounds the entries that are counted at a time: processes, paths and seconds; valueBytes is the memory of each in the
	// kernel.
	valueEntries, valueBytes = 8192, 120
	// valuesAtOnce is how many entries are read by one call.
	valuesAtOnce = 1024
	// keptSeconds is for how long the entries of a second are read after its end: programs may have looked an entry up when the second ended.
	keptSeconds = 3
)

// Count is the number of requests that a process has answered in a second, since the last call of [Paths.Take].
type Count struct {
	Subject observe.SubjectKey
	// Second is that of the clock that [Paths.SetClock] has set.
	Second int64
	// Path is empty if all requests count together. Begins: it is the beginning of their paths.
	Path   string
	Begins bool
	// Errors are those with a status of 500 to 599, Took is their total duration.
	Requests, Errors uint64
	Took             time.Duration
}

type (
	valueKey  = bindings.NetworkCaptureNetworkValueKey
	valueSums = bindings.NetworkCaptureNetworkValue
)

// tallies are requests that are counted in the kernel.
type tallies struct {
	values, base *ebpf.Map
	// taken has the counts that were already taken, second is the second of the last call of Take.
	taken   map[valueKey]valueSums
	second  int64
	keys    []valueKey
	amounts []valueSums
	counted []Count
}

func newTallies() tallies {
	return tallies{taken: map[valueKey]valueSums{}, keys: make([]valueKey, valuesAtOnce), amounts: make([]valueSums, valuesAtOnce)}
}

// SetClock sets by how much the clock whose seconds requests are counted by is ahead of CLOCK_MONOTONIC: a request counts in the second in
// which its response has ended.
func (p *Paths) SetClock(ahead time.Duration) error {
	if err := p.base.Put(uint32(0), uint64(ahead)); err != nil {
		return fmt.Errorf("setting the clock by which requests are counted: %w", err)
	}
	return nil
}

// Take passes the counts since the last call to give, without holding a lock; now is the current second.
func (p *Paths) Take(now int64, give func(Count)) error {
	counted, err := p.take(now)
	for i := range counted {
		give(counted[i])
	}
	p.mu.Lock()
	p.counted = counted[:0] // reused by the next call
	p.mu.Unlock()
	return err
}

func (p *Paths) take(now int64) (counted []Count, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.second = now
	counted, p.counted = p.counted, nil
	var old []valueKey
	err = p.read(func(key *valueKey, amount *valueSums) {
		if int64(key.Second) < now-keptSeconds {
			old = append(old, *key)
		}
		if count, grown := p.growth(key, amount); grown {
			counted = append(counted, count)
		}
	})
	for i := range old {
		delete(p.taken, old[i])
		if failed := p.values.Delete(&old[i]); failed != nil && !errors.Is(failed, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, fmt.Errorf("deleting the counts of requests: %w", failed))
		}
	}
	for number, set := range p.numbers {
		if set.owners == 0 && set.gone < now-2*keptSeconds {
			delete(p.numbers, number)
		}
	}
	return counted, err
}

// read reads the whole table.
func (p *Paths) read(each func(*valueKey, *valueSums)) error {
	var cursor ebpf.MapBatchCursor
	for {
		n, err := p.values.BatchLookup(&cursor, p.keys, p.amounts, nil)
		for i := range n {
			each(&p.keys[i], &p.amounts[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the counts of requests: %w", err)
		}
	}
}

// growth returns by how much an entry has grown since it was last taken.
func (p *Paths) growth(key *valueKey, amount *valueSums) (count Count, grown bool) {
	before := p.taken[*key]
	if amount.Requests == before.Requests {
		return Count{}, false
	}
	p.taken[*key] = *amount
	path, begins := p.numbers[key.Set].path(key.Path)
	return Count{
		Subject: observe.SubjectKey{PID: key.Pid, StartBoottime: key.StartBoottime, ExecID: key.ExecId},
		Second:  int64(key.Second), Path: path, Begins: begins,
		Requests: amount.Requests - before.Requests, Errors: amount.Errors - before.Errors, Took: time.Duration(amount.Took - before.Took),
	}, true
}

// skippedPath returns the path of a request that was skipped in the kernel, or its beginning; path is "" if it was not to be counted, or if the
// process has other paths by now.
func (p *Paths) skippedPath(pid uint32, request skippedRequest) (path string, begins bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set := p.of[pid]
	if set == nil || set.number != request.Set {
		return "", false
	}
	return set.path(request.Path)
}
