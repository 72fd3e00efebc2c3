// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// Loader loads BPF objects. It keeps the kernel's type information, some MiB, between loads: drop it when the last object is loaded. It does
// not find types that only a kernel module has: that would take reading the type information of each of a host's hundred modules.
type Loader struct {
	cache *btf.Cache
	// scopeBit is the bit that objects test in a process's scope; 0: the bit of their kind.
	scopeBit uint32
	// SysRoot is where the host's /sys is mounted; [Refusal] reads there what refuses a load.
	SysRoot string
	// done is closed when loading is cancelled; nil: it cannot be.
	done <-chan struct{}
	// charge accounts for the CPU time of loading.
	charge func(work func())
}

// NewLoader returns a Loader that has read nothing yet. Kernels before 5.11 charge programs and maps to RLIMIT_MEMLOCK, also those that only
// probe features of the kernel: the limit is raised here, before any of them. If it may not be raised, it may still be high enough, so that
// only a load itself shows it, see [Refusal].
func NewLoader() *Loader {
	_ = rlimit.RemoveMemlock()
	cache := sharedTypes.Load()
	if cache == nil {
		cache = btf.NewCache()
	}
	return &Loader{cache: cache, SysRoot: "/sys", charge: func(work func()) { work() }}
}

// sharedTypes is the cache of all Loaders; nil: each has its own.
var sharedTypes atomic.Pointer[btf.Cache]

// ShareTypes makes all Loaders made from now on share one copy of the kernel's type information, which stays in memory. Tests that load
// objects again and again use it: reading the types takes half of the CPU time of a load under the race detector.
func ShareTypes() { sharedTypes.CompareAndSwap(nil, btf.NewCache()) }

// Observing returns a Loader with the same types whose objects test a bit of their own in a process's scope. It serves to load a kind a
// second time.
func (l *Loader) Observing(bit uint32) *Loader {
	observing := *l
	observing.scopeBit = bit
	return &observing
}

// Until returns a Loader with the same types that loads until ctx is done, and cancels loads in progress then. The kernel's verifier cannot
// be interrupted and takes up to a second of CPU time for a program, many times that on a busy host: the program that it verifies is freed
// when it returns, and no caller waits for that. charge accounts for the CPU time of that, too.
func (l *Loader) Until(ctx context.Context, charge func(work func())) *Loader {
	until := *l
	until.done, until.charge = ctx.Done(), charge
	return &until
}

// ErrGivenUp is the cause when loading was cancelled.
var ErrGivenUp = errors.New("given up")

// Err is ErrGivenUp when loading was cancelled, else nil.
func (l *Loader) Err() error {
	select {
	case <-l.done:
		return ErrGivenUp
	default:
		return nil
	}
}

// Load verifies the programs of spec and creates its maps. Maps that shared has, too, by name, are taken from shared, whatever their size.
// what names the object in errors.
func (l *Loader) Load(what string, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map) (*ebpf.Collection, error) {
	if err := spareFiles(); err != nil {
		return nil, fmt.Errorf("loading %s: %w", what, err)
	}
	replacements := map[string]*ebpf.Map{}
	for name, m := range shared {
		if wanted, ok := spec.Maps[name]; ok {
			wanted.MaxEntries = m.MaxEntries()
			replacements[name] = m
		}
	}
	if own := spec.Variables[bindings.OnCPUVarScopeBit]; own != nil && l.scopeBit != 0 {
		if err := own.Set(l.scopeBit); err != nil {
			return nil, fmt.Errorf("loading %s: setting the bit of its scope: %w", what, err)
		}
	}
	options := ebpf.CollectionOptions{MapReplacements: replacements, Cache: l.cache}
	if spec.Types != nil {
		types, err := l.cache.Kernel()
		if err != nil {
			return nil, fmt.Errorf("loading %s: reading the kernel's types: %w", what, err)
		}
		options.Programs.KernelTypes = types
	}
	coll, err := l.collection(spec, options)
	switch {
	case err == nil:
		return coll, nil
	case errors.Is(err, ErrGivenUp):
		return nil, fmt.Errorf("loading %s: %w", what, err)
	case isRefusal(err) || lockedDown(readText, l.SysRoot):
		return nil, fmt.Errorf("loading %s: %w; %s", what, refusedError{err}, Refusal(l.SysRoot))
	default:
		return nil, fmt.Errorf("loading %s: %w", what, err)
	}
}

// refusedError is an error of the library that loads programs, without its guess at the cause of a refused map.
type refusedError struct{ error }

func (e refusedError) Error() string {
	return strings.ReplaceAll(e.error.Error(), " (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", "")
}

func (e refusedError) Unwrap() error { return e.error }

// collection creates the maps of spec, then the programs one by one, so that loading can be cancelled between them.
func (l *Loader) collection(spec *ebpf.CollectionSpec, options ebpf.CollectionOptions) (*ebpf.Collection, error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	maps := *spec
	maps.Programs = nil
	coll, err := ebpf.NewCollectionWithOptions(&maps, options)
	if err != nil {
		return nil, err
	}
	coll.Programs = make(map[string]*ebpf.Program, len(spec.Programs))
	for name := range spec.Programs {
		program, err := l.program(name, spec, coll, options)
		if errors.Is(err, ErrGivenUp) {
			return nil, err
		}
		if err != nil {
			coll.Close()
			return nil, err
		}
		coll.Programs[name] = program
	}
	return coll, nil
}

// program verifies a program that uses the maps of loaded. If loading is cancelled, it closes loaded when the kernel has verified the program,
// which uses the maps until then.
func (l *Loader) program(name string, spec *ebpf.CollectionSpec, loaded *ebpf.Collection, options ebpf.CollectionOptions) (*ebpf.Program, error) {
	program := spec.Programs[name].Copy()
	for i := range program.Instructions {
		ins := &program.Instructions[i]
		uses := loaded.Maps[ins.Reference()]
		if uses == nil || !ins.IsLoadFromMap() {
			continue
		}
		if err := ins.AssociateMap(uses); err != nil {
			return nil, fmt.Errorf("program %s: map %s: %w", name, ins.Reference(), err)
		}
	}
	one := *spec
	one.Programs, one.Maps, one.Variables = map[string]*ebpf.ProgramSpec{name: program}, nil, nil
	options.MapReplacements = nil
	type verified struct {
		coll *ebpf.Collection
		err  error
	}
	done := make(chan verified)
	go func() {
		var v verified
		l.charge(func() { v.coll, v.err = ebpf.NewCollectionWithOptions(&one, options) })
		select {
		case done <- v:
		case <-l.done:
			if v.err == nil {
				v.coll.Close()
			}
			loaded.Close()
		}
	}()
	select {
	case <-l.done:
		return nil, ErrGivenUp
	case v := <-done:
		if v.err != nil {
			return nil, v.err
		}
		defer v.coll.Close()
		return v.coll.DetachProgram(name), nil
	}
}

// filesToSpare is more than the library that loads programs opens at a time to probe features of the kernel.
const filesToSpare = 16

// spareFiles refuses to load if few files can still be opened. The library would take a feature for missing that it could not probe, and
// cache that for good.
func spareFiles() (err error) {
	var spare []int
	defer func() {
		for _, fd := range spare {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	for range filesToSpare {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %d files, to check that enough file descriptors are left: %w", filesToSpare, err)
		}
		spare = append(spare, fd)
	}
	return nil
}
