// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory is what a process has in RAM, in bytes.
type Memory struct {
	RSS  uint64 // VmRSS
	Anon uint64 // RssAnon: heap and stacks
	File uint64 // RssFile: the binary's pages, shared with the page cache
	Peak uint64 // VmHWM: the highest RSS so far, as the kernel keeps it
}

// Max is the larger value of each field.
func (m Memory) Max(o Memory) Memory {
	return Memory{RSS: max(m.RSS, o.RSS), Anon: max(m.Anon, o.Anon), File: max(m.File, o.File), Peak: max(m.Peak, o.Peak)}
}

// Memory reads /proc/PID/status.
func (p FS) Memory(pid int) (Memory, error) {
	path := filepath.Join(string(p), strconv.Itoa(pid), "status")
	text, err := os.ReadFile(path)
	if err != nil {
		return Memory{}, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	var m Memory
	wanted := map[string]*uint64{"VmRSS": &m.RSS, "RssAnon": &m.Anon, "RssFile": &m.File, "VmHWM": &m.Peak}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		to, ok := wanted[key]
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 54)
		if err != nil {
			return Memory{}, fmt.Errorf("reading %s: %s: %w", path, key, err)
		}
		*to = kib << 10
	}
	return m, nil
}

// StorageObjects is the memory of the kernel's small objects, which include socket storage, in bytes: whole slabs of the caches
// kmalloc-cg-* of /proc/slabinfo, which root may read, with the pointers that name the owner of each object in them. These are charged to a
// cgroup, as what programs store is. Where the kernel charges no cgroup, or has no caches of their own for such objects (before 5.14), all
// of kmalloc-* are counted, and with them much that other processes of the host have. Objects above 256 bytes are none of these: a process
// that has the kernel verify programs is charged for tens of MB of them for a moment.
func (p FS) StorageObjects() (uint64, error) {
	path := filepath.Join(string(p), "slabinfo")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading the kernel's memory: %w", err)
	}
	prefix, owner := "kmalloc-", uint64(0)
	if strings.Contains(string(text), "\nkmalloc-cg-") {
		prefix, owner = "kmalloc-cg-", 8
	}
	// name, active objects, objects, size, objects in a slab, pages of a slab, ": tunables", 3 numbers, ": slabdata", active slabs, slabs
	const size, objects, pages, slabs, fields, largest = 3, 4, 5, 14, 15, 256
	var sum uint64
	for line := range strings.Lines(string(text)) {
		columns := strings.Fields(line)
		if !strings.HasPrefix(line, prefix) || strings.HasPrefix(line, "kmalloc-rcl-") || len(columns) < fields {
			continue
		}
		var n [fields]uint64
		for _, column := range []int{size, objects, pages, slabs} {
			if n[column], err = strconv.ParseUint(columns[column], 10, 31); err != nil {
				return 0, fmt.Errorf("reading %s: %s: %w", path, columns[0], err)
			}
		}
		if n[size] > largest {
			continue
		}
		sum += n[slabs] * (n[pages]*uint64(os.Getpagesize()) + n[objects]*owner)
	}
	if sum == 0 {
		return 0, fmt.Errorf("reading %s: it has no kmalloc-*", path)
	}
	return sum, nil
}

// KernelMaps is what the BPF maps of a process take in the kernel.
type KernelMaps struct {
	Maps  int
	Bytes uint64
}

// KernelMaps sums the field memlock over the process's file descriptors of BPF maps, as /proc/PID/fdinfo has it
// (kernel/bpf/syscall.c, bpf_map_show_fdinfo). A map that is open twice counts once.
func (p FS) KernelMaps(pid int) (KernelMaps, error) {
	seen := map[uint64]uint64{}
	err := p.eachDescriptor(pid, func(fields map[string]uint64) {
		if id, ok := fields["map_id"]; ok {
			seen[id] = fields["memlock"]
		}
	})
	out := KernelMaps{Maps: len(seen)}
	for _, bytes := range seen {
		out.Bytes += bytes
	}
	return out, err
}

// HoldsProgram reports whether a process has the BPF program with the kernel's id open: other processes of the host may
// have programs of the same name.
func (p FS) HoldsProgram(pid int, id uint32) (bool, error) {
	holds := false
	err := p.eachDescriptor(pid, func(fields map[string]uint64) {
		found, ok := fields["prog_id"]
		holds = holds || ok && found == uint64(id)
	})
	return holds, err
}

// LookAtDescriptors reads the link of each file that a process has open, as programs that list them
// do.
func (p FS) LookAtDescriptors(pid int) error {
	dir := filepath.Join(string(p), strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing the file descriptors of process %d: %w", pid, err)
	}
	for _, entry := range entries {
		if _, err := os.Lstat(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking at a file descriptor of process %d: %w", pid, err)
		}
	}
	return nil
}

// eachDescriptor visits the numeric fields of each file in /proc/PID/fdinfo.
func (p FS) eachDescriptor(pid int, visit func(map[string]uint64)) error {
	dir := filepath.Join(string(p), strconv.Itoa(pid), "fdinfo")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing the file descriptors of process %d: %w", pid, err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return fmt.Errorf("reading a file descriptor of process %d: %w", pid, err)
		}
		visit(numbers(string(text)))
	}
	return nil
}

// numbers returns the fields that are decimal numbers.
func numbers(fdinfo string) map[string]uint64 {
	fields := map[string]uint64{}
	for line := range strings.Lines(fdinfo) {
		key, value, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
			fields[key] = n
		}
	}
	return fields
}
