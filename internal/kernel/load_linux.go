// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// Loader loads BPF objects. It keeps the kernel's type information, some MiB,
// between loads: drop it when the last object is loaded. Types that only a
// module of the kernel has are unknown to it: to look for them, the type
// information of each of a host's hundred modules would be read.
type Loader struct {
	cache *btf.Cache
	// scopeBit is what objects look at in a process's scope; 0: the bit of their kind.
	scopeBit uint32
	// memlock says why RLIMIT_MEMLOCK could not be raised.
	memlock error
}

// NewLoader returns a Loader that has read nothing yet. Kernels before 5.11 charge
// programs and maps to RLIMIT_MEMLOCK, those too that only ask what the kernel can do:
// the limit is raised here, before any of them. Where it may not be raised it may still
// be high enough, so only a load itself can tell.
func NewLoader() *Loader {
	return &Loader{cache: btf.NewCache(), memlock: rlimit.RemoveMemlock()}
}

// Observing returns a Loader with the same types whose objects look at a bit of a
// process's scope of their own: where a kind is loaded a second time.
func (l *Loader) Observing(bit uint32) *Loader {
	return &Loader{cache: l.cache, scopeBit: bit, memlock: l.memlock}
}

// Load verifies the programs of spec and creates its maps, but for those that
// shared has too, by name: of these it uses shared's, whatever their size. what
// names the object in errors.
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
	coll, err := ebpf.NewCollectionWithOptions(spec, options)
	switch {
	case err == nil:
		return coll, nil
	case l.memlock != nil && errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("loading %s: %w (this kernel charges BPF maps to RLIMIT_MEMLOCK, which could not be raised: %w; "+
			"grant CAP_SYS_RESOURCE or raise the limit, with systemd by LimitMEMLOCK=infinity)", what, err, l.memlock)
	default:
		return nil, fmt.Errorf("loading %s: %w", what, err)
	}
}

// filesToSpare is more than the library that loads programs opens at a time to find
// out what the kernel can do.
const filesToSpare = 16

// spareFiles refuses to load where few files can be opened still. The library would
// take a feature for missing that it could not try, and remember that for good.
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
			return fmt.Errorf("opening %d files, to see that there is room for them: %w", filesToSpare, err)
		}
		spare = append(spare, fd)
	}
	return nil
}
