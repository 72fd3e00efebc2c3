// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

const (
	// pathOwners bounds the processes that have paths, pathEntries the paths of all of them.
	pathOwners, pathEntries = 8192, 4096
	// ownerBytes and entryBytes are what each takes in the kernel.
	ownerBytes, entryBytes = 64, 128
	// setBits is the part of a key that is the same for all paths of a set.
	setBits = 32
)

// Paths are those to which requests leave the kernel, of those that processes answer: of
// a process that has none here all do. Its methods may be called from any goroutine.
type Paths struct {
	owners, paths *ebpf.Map

	mu   sync.Mutex
	sets map[string]*pathSet
	of   map[uint32]*pathSet // by process id
	last uint32              // number of a set
	used int                 // entries
}

// pathSet is what several processes have.
type pathSet struct {
	name   string
	number uint32
	owners int
	keys   []bindings.NetworkNetworkPath
}

// errPaths says that a process's paths found no room.
var errPaths = errors.New("there is no room for the paths of its policies: all of its requests are read")

// NewPaths makes the tables, which programs that start later share.
func NewPaths() (*Paths, error) {
	spec, err := bindings.LoadNetwork()
	if err != nil {
		return nil, fmt.Errorf("reading the network programs: %w", err)
	}
	memlock := rlimit.RemoveMemlock() // to which kernels before 5.11 charge tables
	p := &Paths{sets: map[string]*pathSet{}, of: map[uint32]*pathSet{}}
	for _, one := range []struct {
		to      **ebpf.Map
		name    string
		entries uint32
	}{
		{&p.owners, bindings.NetworkMapNetworkPathOwners, pathOwners},
		{&p.paths, bindings.NetworkMapNetworkPaths, pathEntries},
	} {
		m := spec.Maps[one.name].Copy()
		m.MaxEntries = one.entries
		if *one.to, err = ebpf.NewMap(m); err != nil {
			return nil, errors.Join(fmt.Errorf("making the table %s: %w", one.name, err), memlock, p.Close())
		}
	}
	return p, nil
}

// Set has those requests alone leave the kernel that a process answers and whose target
// begins with one of these texts. Of long ones the beginning counts.
func (p *Paths) Set(pid uint32, targets []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := strings.Join(targets, "\n")
	if was := p.of[pid]; was != nil && was.name == name {
		return nil
	}
	set := p.sets[name]
	if set == nil {
		var err error
		if set, err = p.add(name, targets); err != nil {
			return errors.Join(fmt.Errorf("process %d: %w", pid, err), p.remove(pid))
		}
	}
	set.owners++
	if err := p.note(pid, set); err != nil {
		return errors.Join(err, p.release(set), p.remove(pid))
	}
	was := p.of[pid]
	p.of[pid] = set
	return p.release(was)
}

// note tells the programs which set a process has.
func (p *Paths) note(pid uint32, set *pathSet) error {
	if p.of[pid] == nil && len(p.of) >= pathOwners {
		return fmt.Errorf("process %d: %w", pid, errPaths)
	}
	if err := p.owners.Put(pid, set.number); err != nil {
		return fmt.Errorf("noting the paths of process %d: %w", pid, err)
	}
	return nil
}

// Remove has all requests leave the kernel that a process answers.
func (p *Paths) Remove(pid uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(pid)
}

func (p *Paths) remove(pid uint32) error {
	set := p.of[pid]
	if set == nil {
		return nil
	}
	delete(p.of, pid)
	err := p.owners.Delete(pid)
	if err != nil {
		err = fmt.Errorf("forgetting the paths of process %d: %w", pid, err)
	}
	return errors.Join(err, p.release(set))
}

// add writes a set that nobody has yet.
func (p *Paths) add(name string, targets []string) (*pathSet, error) {
	p.last++
	set := &pathSet{name: name, number: p.last}
	for _, target := range targets {
		key := bindings.NetworkNetworkPath{Set: set.number}
		key.Bits = setBits + 8*uint32(copy(key.Text[:], target))
		if !slices.Contains(set.keys, key) {
			set.keys = append(set.keys, key)
		}
	}
	if p.used+len(set.keys) > pathEntries {
		return nil, errPaths
	}
	for i := range set.keys {
		if err := p.paths.Put(keyBytes(&set.keys[i]), uint8(1)); err != nil {
			set.keys = set.keys[:i]
			return nil, errors.Join(fmt.Errorf("writing the path %q: %w", targets[i], err), p.clear(set))
		}
		p.used++
	}
	p.sets[name] = set
	return set, nil
}

// release is told that one process less has a set.
func (p *Paths) release(set *pathSet) error {
	if set == nil {
		return nil
	}
	if set.owners--; set.owners > 0 {
		return nil
	}
	delete(p.sets, set.name)
	return p.clear(set)
}

func (p *Paths) clear(set *pathSet) error {
	var errs []error
	for i := range set.keys {
		if err := p.paths.Delete(keyBytes(&set.keys[i])); err != nil {
			errs = append(errs, fmt.Errorf("forgetting paths: %w", err))
			continue
		}
		p.used--
	}
	return errors.Join(errs...)
}

// keyBytes is a key as the kernel has it.
func keyBytes(key *bindings.NetworkNetworkPath) []byte {
	raw := make([]byte, 0, unsafe.Sizeof(*key))
	raw = binary.NativeEndian.AppendUint32(raw, key.Bits)
	raw = binary.NativeEndian.AppendUint32(raw, key.Set)
	return append(raw, key.Text[:]...)
}

// shared are the tables under the names that the programs know them by.
func (p *Paths) shared() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{bindings.NetworkMapNetworkPathOwners: p.owners, bindings.NetworkMapNetworkPaths: p.paths}
}

// MapBytes is the memory of the kernel's tables.
func (p *Paths) MapBytes() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return pathOwners*ownerBytes + uint64(p.used)*entryBytes
}

// Close frees the tables; programs that share them keep them.
func (p *Paths) Close() error {
	var errs []error
	for _, m := range []*ebpf.Map{p.owners, p.paths} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
