// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// Region is where a process has mapped a binary's code.
type Region struct {
	Start, End uint64
	// Bias is what is added to an address in the binary to get that in the process.
	Bias uint64
	// Content identifies the binary: equal in two regions if and only if their
	// binaries are taken to be the same.
	Content string
	// Size is that of the binary in bytes.
	Size uint64

	entry mapEntry
	key   fileKey
}

// Path is the binary's path as the process sees it.
func (r *Region) Path() string { return r.entry.name() }

// Regions returns the executable mappings of ELF files and of the vDSO, by
// address, as far as they can be read.
func (a *AddressSpace) Regions() []Region {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	out := make([]Region, 0, len(a.regions))
	for i := range a.regions {
		r := &a.regions[i]
		if r.bin.cause != reason.Named {
			continue
		}
		out = append(out, r.exported())
	}
	return out
}

func (r *region) exported() Region {
	content := r.known
	if content == "" {
		content = r.bin.contentKey()
	}
	return Region{
		Start: r.start, End: r.end, Bias: -r.delta, Content: content, Size: r.bin.size, entry: r.mapEntry, key: r.bin.key,
	}
}

// United returns the region as it is mapped now, with the content that its file was found to have since. Use it for what is still to be made
// of the region. It is the region itself if it is not mapped any more.
func (a *AddressSpace) United(r Region) Region {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for i := range a.regions {
		if now := &a.regions[i]; now.start == r.Start && now.ino == r.entry.ino && now.dev == r.entry.dev && now.offset == r.entry.offset {
			now.known = ""
			return now.exported()
		}
	}
	return r
}

// OpenRegion opens the binary of a region for reading, apart from what the Symbolizer reads itself; close frees it. The error reports a file
// that was removed or replaced, or wraps [ErrProcessExited].
func (a *AddressSpace) OpenRegion(r Region) (image elfimage.Image, closeFile func() error, err error) {
	if held, ok := a.inMemory(r); ok {
		return elfimage.Image{Src: held, Size: uint64(held.Size())}, held.Close, nil
	}
	p, err := a.s.proc.dir(a.id)
	if err != nil {
		return elfimage.Image{}, nil, err
	}
	defer p.close()
	c, err := p.locate(&r.entry)
	if err != nil {
		return elfimage.Image{}, nil, err
	}
	defer c.close() //nolint:errcheck // an O_PATH descriptor: nothing is lost
	if key := c.key(); !a.known(key, r) {
		return elfimage.Image{}, nil, fmt.Errorf("opening %s of process %d: %w", r.entry.name(), a.id.PID, errOtherFile)
	}
	src, err := c.open()
	if err != nil {
		return elfimage.Image{}, nil, err
	}
	return elfimage.Image{Src: src, Size: uint64(max(c.key().size, 0))}, src.Close, nil
}

// known reports whether a file is the region's binary.
func (a *AddressSpace) known(key fileKey, r Region) bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	key.path = r.key.path
	b := a.s.binaries[key]
	return key == r.key || b != nil && (b.key == r.key || slices.Contains(b.aliases, r.key))
}

// inMemory returns the region's binary if that is in memory.
func (a *AddressSpace) inMemory(r Region) (memorySource, bool) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	b := a.s.binaries[r.key]
	if b == nil || !b.pinned {
		return memorySource{}, false
	}
	held, ok := b.file.(memorySource)
	return held, ok
}

// ErrNoDebug is the cause if a binary has no separate debug file.
var ErrNoDebug = debuginfo.ErrNone

// ErrChecksumTooLong is the cause if a debug file is larger than the caller's limit for checksums, and ErrStopped if the caller stopped. With
// the former the error may wrap [ErrNoDebug], too.
var (
	ErrChecksumTooLong = debuginfo.ErrInSteps
	ErrStopped         = debuginfo.ErrStopped
)

// OpenDebug opens the separate debug file of a region's binary, which may have a .debug_frame that the binary itself lacks. It is one that
// may serve all processes, as its results do. A file without a build id is identified by its checksum, 0.6 ms of work for each MiB, of which
// there may be three: files of more than limit bytes are not compared, and nothing is compared after stop returns true. The error wraps
// [ErrNoDebug] when there is none.
func (a *AddressSpace) OpenDebug(r Region, limit uint64, stop func() bool) (debuginfo.File, error) {
	image, closeFile, err := a.OpenRegion(r)
	if err != nil {
		return debuginfo.File{}, err
	}
	defer closeFile() //nolint:errcheck // a file that was only read
	v, of := a.viewer(r)
	file, _, err := debuginfo.Separate(image, r.Path(), limit, stop, func(path string) (debuginfo.File, error) {
		return a.s.openShared(v, of, path)
	})
	if err != nil {
		return debuginfo.File{}, fmt.Errorf("debug file of %s of process %d: %w", r.Path(), a.id.PID, err)
	}
	return file, nil
}

// viewer is what is known of the process, and of the file of a region's binary.
func (a *AddressSpace) viewer(r Region) (*viewer, origin) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	id := a.identity()
	v := &viewer{id: a.id, domain: id.domain, as: id.as, path: r.Path()}
	if b := a.s.binaries[r.key]; b != nil {
		return v, b.origin
	}
	return v, origin{}
}
