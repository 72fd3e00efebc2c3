// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// valueEntries bounds what is counted apart at a time: processes, paths and seconds; valueBytes
	// is what each takes in the kernel.
	valueEntries, valueBytes = 8192, 120
	// valuesAtOnce is how many are read by one call.
	valuesAtOnce = 1024
	// keptSeconds is for how long what is counted of a second is looked at, since programs may
	// have found its place when it ended.
	keptSeconds = 3
)

// Count is how many requests a process has answered in a second, since that was asked last.
type Count struct {
	Subject observe.SubjectKey
	// Second is that of the clock which [Paths.SetClock] has set.
	Second int64
	// Path is empty where requests count whatever theirs is; Begins says that it is how theirs begin.
	Path   string
	Begins bool
	// Errors are those with a status of 500 to 599, Took is how long all of them took together.
	Requests, Errors uint64
	Took             time.Duration
}

type (
	valueKey  = bindings.NetworkNetworkValueKey
	valueSums = bindings.NetworkNetworkValue
)

// tallies are requests that are counted in the kernel.
type tallies struct {
	values, base *ebpf.Map
	// told is what was told of each, second the one in which they were taken last.
	told    map[valueKey]valueSums
	second  int64
	keys    []valueKey
	amounts []valueSums
	counted []Count
}

func newTallies() tallies {
	return tallies{told: map[valueKey]valueSums{}, keys: make([]valueKey, valuesAtOnce), amounts: make([]valueSums, valuesAtOnce)}
}

// SetClock says by how much the clock is ahead of CLOCK_MONOTONIC by whose seconds requests
// are counted: a request counts in the second in which its response has ended.
func (p *Paths) SetClock(ahead time.Duration) error {
	if err := p.base.Put(uint32(0), uint64(ahead)); err != nil {
		return fmt.Errorf("setting the clock by whose seconds requests are counted: %w", err)
	}
	return nil
}

// Take hands over what was counted since the last call, with no lock held; now is the running second.
func (p *Paths) Take(now int64, give func(Count)) error {
	counted, err := p.take(now)
	for i := range counted {
		give(counted[i])
	}
	p.mu.Lock()
	p.counted = counted[:0] // room for the next time
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
		delete(p.told, old[i])
		if failed := p.values.Delete(&old[i]); failed != nil && !errors.Is(failed, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, fmt.Errorf("forgetting what was counted of requests: %w", failed))
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
			return fmt.Errorf("reading what was counted of requests: %w", err)
		}
	}
}

// growth is by how much something has grown since it was told last.
func (p *Paths) growth(key *valueKey, amount *valueSums) (count Count, grown bool) {
	before := p.told[*key]
	if amount.Requests == before.Requests {
		return Count{}, false
	}
	p.told[*key] = *amount
	path, begins := p.numbers[key.Set].path(key.Path)
	return Count{
		Subject: observe.SubjectKey{PID: key.Pid, StartBoottime: key.StartBoottime, ExecID: key.ExecId},
		Second:  int64(key.Second), Path: path, Begins: begins,
		Requests: amount.Requests - before.Requests, Errors: amount.Errors - before.Errors, Took: time.Duration(amount.Took - before.Took),
	}, true
}

// standInDigits is how many digits the target of a stand-in has, see STAND_IN_GET of
// bpf/include/network_paths.h: of a set, as far as they are told, and of a path in it.
const standInDigits = 8

// standIn is the path of a request that a stand-in was told for, or how it begins; ok is false where the target is none's.
func (p *Paths) standIn(pid uint32, target []byte) (path string, begins, ok bool) {
	var raw [standInDigits / 2]byte
	if len(target) != 1+standInDigits || target[0] != l7.UnknownText[0] {
		return "", false, false
	}
	if _, err := hex.Decode(raw[:], target[1:]); err != nil {
		return "", false, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	set := p.of[pid]
	if set == nil || uint16(set.number) != uint16(raw[0])<<8|uint16(raw[1]) {
		return "", false, true
	}
	path, begins = set.path(uint32(raw[2])<<8 | uint32(raw[3]))
	return path, begins, true
}
