// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	// pathTold, pathsRest and pathsNone are PATH_TOLD, PATHS_REST and PATHS_NONE of
	// bpf/include/network_paths.h, pathBytes PATH_BYTES of network_window.h.
	pathTold, pathsRest, pathsNone = 0x10000, 1 << 31, 1 << 30
	// pathRest is NETWORK_PATH_REST.
	pathRest  = 0xffff
	pathBytes = len(bindings.NetworkNetworkPath{}.Text)
	// setBits is the part of a key that is the same for all paths of a set.
	setBits = 32
)

// Wanted is which requests of HTTP/1 are wanted of those that a process answers. What is
// told leaves the kernel; what is counted does so where the kernel cannot follow it.
type Wanted struct {
	// Told are beginnings of targets, of long ones the beginning counts.
	Told []string
	// Counted are whole paths, without query. One that begins with one of Told is counted all the same.
	Counted []string
	// Begun are beginnings of paths, of which the longest counts; none has a blank or a question mark.
	Begun []string
	// Rest has those counted that are neither.
	Rest bool
}

// name is the same of sets that want the same.
func (w *Wanted) name() string {
	return strings.Join(w.Told, "\n") + "\n\n" + strings.Join(w.Counted, "\n") + "\n\n" + strings.Join(w.Begun, "\n") + "\n\n" + strconv.FormatBool(w.Rest)
}

// Paths are those by which requests are told and counted, of those that processes answer: of
// a process that has none here all are told. Its methods may be called from any goroutine.
type Paths struct {
	owners, paths *ebpf.Map
	tallies

	mu      sync.Mutex
	sets    map[string]*pathSet
	of      map[uint32]*pathSet // by process id
	numbers map[uint32]*pathSet // those too that nobody has any more, while something may be counted of them
	last    uint32              // number of a set
	used    int                 // entries
}

// pathSet is what several processes have.
type pathSet struct {
	name   string
	number uint32
	flags  uint32
	owners int
	keys   []bindings.NetworkNetworkPath
	paths  []string // those that are counted, by number less one
	whole  int      // how many of them are no beginnings, which are behind them
	gone   int64    // the second in which nobody had it any more
}

// path is that of a number; nothing where it counts without one.
func (s *pathSet) path(number uint32) (path string, begins bool) {
	if s == nil || number == 0 || int(number) > len(s.paths) {
		return "", false
	}
	return s.paths[number-1], int(number) > s.whole
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
	p := &Paths{sets: map[string]*pathSet{}, of: map[uint32]*pathSet{}, numbers: map[uint32]*pathSet{}, tallies: newTallies()}
	for _, one := range []struct {
		to      **ebpf.Map
		name    string
		entries uint32
	}{
		{&p.owners, bindings.NetworkMapNetworkPathOwners, pathOwners},
		{&p.paths, bindings.NetworkMapNetworkPaths, pathEntries},
		{&p.values, bindings.NetworkMapNetworkValues, valueEntries},
		{&p.base, bindings.NetworkMapNetworkSecondBase, 1},
	} {
		m := spec.Maps[one.name].Copy()
		m.MaxEntries = one.entries
		if *one.to, err = ebpf.NewMap(m); err != nil {
			return nil, errors.Join(fmt.Errorf("making the table %s: %w", one.name, err), memlock, p.Close())
		}
	}
	return p, nil
}

// Set has those requests alone be told, and counted, that are wanted of a process.
func (p *Paths) Set(pid uint32, wanted Wanted) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := wanted.name()
	if was := p.of[pid]; was != nil && was.name == name {
		return nil
	}
	set := p.sets[name]
	if set == nil {
		var err error
		if set, err = p.add(name, &wanted); err != nil {
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
	if err := p.owners.Put(pid, set.number|set.flags); err != nil {
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
func (p *Paths) add(name string, wanted *Wanted) (*pathSet, error) {
	p.last++
	set := &pathSet{name: name, number: p.last, paths: slices.Concat(wanted.Counted, wanted.Begun), whole: len(wanted.Counted)}
	if wanted.Rest {
		set.flags |= pathsRest
		if len(wanted.Told)+len(set.paths) == 0 {
			set.flags |= pathsNone
		}
	}
	values := set.list(wanted)
	if p.used+len(set.keys) > pathEntries {
		return nil, errPaths
	}
	for i := range set.keys {
		if err := p.paths.Put(keyBytes(&set.keys[i]), values[i]); err != nil {
			text := set.keys[i].Text[:(set.keys[i].Bits-setBits)/8]
			set.keys = set.keys[:i]
			return nil, errors.Join(fmt.Errorf("writing the path %q: %w", text, err), p.clear(set))
		}
		p.used++
	}
	p.sets[name], p.numbers[set.number] = set, set
	return set, nil
}

// list makes a set's keys, and returns what becomes of the requests to each.
func (s *pathSet) list(wanted *Wanted) (values []uint32) {
	put := func(target string, value uint32) {
		key := bindings.NetworkNetworkPath{Set: s.number}
		key.Bits = setBits + 8*uint32(copy(key.Text[:], target))
		if !slices.Contains(s.keys, key) {
			s.keys, values = append(s.keys, key), append(values, value)
		}
	}
	for _, target := range wanted.Told {
		put(target, pathTold)
	}
	for i, path := range s.paths {
		value := uint32(i + 1)
		if len(path) >= pathBytes || i >= pathRest-1 {
			value = pathTold // it is not compared to its end
		}
		if i >= s.whole {
			put(path, value)
			continue
		}
		for _, end := range []string{" ", "?"} {
			put(path+end, value)
		}
	}
	return values
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
	set.gone = p.second
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
	return map[string]*ebpf.Map{
		bindings.NetworkMapNetworkPathOwners: p.owners, bindings.NetworkMapNetworkPaths: p.paths,
		bindings.NetworkMapNetworkValues: p.values, bindings.NetworkMapNetworkSecondBase: p.base,
	}
}

// MapBytes is the memory of the kernel's tables.
func (p *Paths) MapBytes() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return pathOwners*ownerBytes + uint64(p.used)*entryBytes + valueEntries*valueBytes
}

// Close frees the tables; programs that share them keep them.
func (p *Paths) Close() error {
	var errs []error
	for _, m := range []*ebpf.Map{p.owners, p.paths, p.values, p.base} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
