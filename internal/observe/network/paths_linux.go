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
	// ownerBytes and entryBytes are the memory of each in the kernel.
	ownerBytes, entryBytes = 64, 128
	// pathReported, pathsRest and pathsNone are PATH_REPORTED, PATHS_REST and PATHS_NONE of bpf/include/network_paths.h, pathBytes is PATH_BYTES of
	// network_window.h.
	pathReported, pathsRest, pathsNone = 0x10000, 1 << 31, 1 << 30
	// pathRest is NETWORK_PATH_REST.
	pathRest  = 0xffff
	pathBytes = len(bindings.NetworkCaptureNetworkPath{}.Text)
	// setBits is the part of a key that is the same for all paths of a set.
	setBits = 32
)

// Wanted selects HTTP/1 requests that a process answers. Those that are reported leave the kernel; those that are counted do so if the kernel
// cannot follow them.
type Wanted struct {
	// Beginnings of the targets of requests that are reported; of long ones the beginning counts.
	Reported []string
	// Counted are whole paths, without query. Requests to a path that also matches a beginning above are counted all the same.
	Counted []string
	// Begun are beginnings of paths, of which the longest match counts; none has a blank or a question mark.
	Begun []string
	// Rest counts those that match none of the above.
	Rest bool
}

// name identifies a set: it is equal for equal sets.
func (w *Wanted) name() string {
	return strings.Join(w.Reported, "\n") + "\n\n" + strings.Join(w.Counted, "\n") + "\n\n" + strings.Join(w.Begun, "\n") + "\n\n" + strconv.FormatBool(w.Rest)
}

// Paths are the paths by which requests that processes answer are reported and counted: of a process without an entry all are reported. Its
// methods may be called from any goroutine.
type Paths struct {
	owners, paths *ebpf.Map
	tallies

	mu      sync.Mutex
	sets    map[string]*pathSet
	of      map[uint32]*pathSet // by process id
	numbers map[uint32]*pathSet // includes sets that no process has any more, while something may still be counted of them
	last    uint32              // number of a set
	used    int                 // entries
}

// pathSet is what several processes have.
type pathSet struct {
	name   string
	number uint32
	flags  uint32
	owners int
	keys   []bindings.NetworkCaptureNetworkPath
	paths  []string // those that are counted, by number less one
	whole  int      // the number of whole paths, which are before the beginnings
	gone   int64    // the second in which the last process dropped it
}

// path returns the path of a number; empty if it counts without one.
func (s *pathSet) path(number uint32) (path string, begins bool) {
	if s == nil || number == 0 || int(number) > len(s.paths) {
		return "", false
	}
	return s.paths[number-1], int(number) > s.whole
}

// errPaths: the paths of a process do not fit in the tables.
var errPaths = errors.New("the table of paths is full: all of its requests are captured")

// NewPaths makes the tables, which programs that start later share.
func NewPaths() (*Paths, error) {
	spec, err := bindings.LoadNetworkCapture()
	if err != nil {
		return nil, fmt.Errorf("reading the network programs: %w", err)
	}
	_ = rlimit.RemoveMemlock() // before 5.11 tables are charged to it; if it may not be raised it may be high enough
	p := &Paths{sets: map[string]*pathSet{}, of: map[uint32]*pathSet{}, numbers: map[uint32]*pathSet{}, tallies: newTallies()}
	for _, one := range []struct {
		to      **ebpf.Map
		name    string
		entries uint32
	}{
		{&p.owners, bindings.NetworkCaptureMapNetworkPathOwners, pathOwners},
		{&p.paths, bindings.NetworkCaptureMapNetworkPaths, pathEntries},
		{&p.values, bindings.NetworkCaptureMapNetworkValues, valueEntries},
		{&p.base, bindings.NetworkCaptureMapNetworkSecondBase, 1},
	} {
		m := spec.Maps[one.name].Copy()
		m.MaxEntries = one.entries
		if *one.to, err = ebpf.NewMap(m); err != nil {
			return nil, errors.Join(fmt.Errorf("making the table %s: %w", one.name, err), p.Close())
		}
	}
	return p, nil
}

// Set reports and counts only the wanted requests of a process.
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

// note sets the set of a process in the kernel.
func (p *Paths) note(pid uint32, set *pathSet) error {
	if p.of[pid] == nil && len(p.of) >= pathOwners {
		return fmt.Errorf("process %d: %w", pid, errPaths)
	}
	if err := p.owners.Put(pid, set.number|set.flags); err != nil {
		return fmt.Errorf("noting the paths of process %d: %w", pid, err)
	}
	return nil
}

// Remove makes all requests that a process answers leave the kernel.
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
		err = fmt.Errorf("deleting the paths of process %d: %w", pid, err)
	}
	return errors.Join(err, p.release(set))
}

// add writes a new set.
func (p *Paths) add(name string, wanted *Wanted) (*pathSet, error) {
	p.last++
	set := &pathSet{name: name, number: p.last, paths: slices.Concat(wanted.Counted, wanted.Begun), whole: len(wanted.Counted)}
	if wanted.Rest {
		set.flags |= pathsRest
		if len(wanted.Reported)+len(set.paths) == 0 {
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

// list makes a set's keys, and returns the action for the requests of each.
func (s *pathSet) list(wanted *Wanted) (values []uint32) {
	put := func(target string, value uint32) {
		key := bindings.NetworkCaptureNetworkPath{Set: s.number}
		key.Bits = setBits + 8*uint32(copy(key.Text[:], target))
		if !slices.Contains(s.keys, key) {
			s.keys, values = append(s.keys, key), append(values, value)
		}
	}
	for _, target := range wanted.Reported {
		put(target, pathReported)
	}
	for i, path := range s.paths {
		value := uint32(i + 1)
		if len(path) >= pathBytes || i >= pathRest-1 {
			value = pathReported // it is not compared to its end
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

// release drops one reference of a process to a set.
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
			errs = append(errs, fmt.Errorf("deleting paths: %w", err))
			continue
		}
		p.used--
	}
	return errors.Join(errs...)
}

// keyBytes returns a key in the kernel's format.
func keyBytes(key *bindings.NetworkCaptureNetworkPath) []byte {
	raw := make([]byte, 0, unsafe.Sizeof(*key))
	raw = binary.NativeEndian.AppendUint32(raw, key.Bits)
	raw = binary.NativeEndian.AppendUint32(raw, key.Set)
	return append(raw, key.Text[:]...)
}

// shared returns the tables by the names that the programs have for them.
func (p *Paths) shared() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		bindings.NetworkCaptureMapNetworkPathOwners: p.owners, bindings.NetworkCaptureMapNetworkPaths: p.paths,
		bindings.NetworkCaptureMapNetworkValues: p.values, bindings.NetworkCaptureMapNetworkSecondBase: p.base,
	}
}

// MapBytes returns the memory of the kernel's tables.
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
