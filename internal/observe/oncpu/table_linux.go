// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// table is one of a CPU's two tables, read and cleared through shared memory
// while the kernel writes the other one.
type table struct {
	kernelMap *ebpf.Map
	memory    []byte
}

func newTable(spec *ebpf.MapSpec) (*table, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("creating a sample table: %w", err)
	}
	page := os.Getpagesize()
	size := (int(spec.ValueSize) + page - 1) / page * page
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mapping a sample table: %w", err), m.Close())
	}
	return &table{kernelMap: m, memory: memory[:spec.ValueSize]}, nil
}

func (t *table) head() *bindings.OnCPUOncpuTable {
	return (*bindings.OnCPUOncpuTable)(unsafe.Pointer(unsafe.SliceData(t.memory)))
}

// entry is one decoded struct oncpu_entry. Its slices are the table's memory:
// they hold until the table is cleared.
type entry struct {
	*bindings.OnCPUOncpuEntry
	user, kernel []uint64
}

// each calls visit with every entry of the table.
func (t *table) each(visit func(entry)) error {
	arena := t.memory[tableHeadBytes:]
	used := int(t.head().Used)
	if used > len(arena) {
		return fmt.Errorf("reading a sample table: %d bytes in use of %d", used, len(arena))
	}
	for at := 0; at < used; {
		e, size, err := entryAt(arena[at:used])
		if err != nil {
			return fmt.Errorf("reading a sample table at %d: %w", at, err)
		}
		visit(e)
		at += size
	}
	return nil
}

func entryAt(raw []byte) (entry, int, error) {
	if len(raw) < entryHeadBytes {
		return entry{}, 0, fmt.Errorf("%d bytes left, an entry has %d", len(raw), entryHeadBytes)
	}
	head := (*bindings.OnCPUOncpuEntry)(unsafe.Pointer(unsafe.SliceData(raw)))
	user, kernel := max(int(head.UserFrames), 0), max(int(head.KernelFrames), 0)
	size := entryHeadBytes + 8*(user+kernel)
	if user > MaxDepth || kernel > MaxDepth || size > len(raw) {
		return entry{}, 0, fmt.Errorf("an entry of %d and %d frames does not fit into %d bytes", user, kernel, len(raw))
	}
	frames := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(raw[entryHeadBytes:]))), user+kernel)
	return entry{OnCPUOncpuEntry: head, user: frames[:user:user], kernel: frames[user:]}, size, nil
}

// clear makes the table ready for the kernel to write.
func (t *table) clear() { clear(t.memory[:tableHeadBytes]) }

func (t *table) close() error {
	return errors.Join(unix.Munmap(t.memory[:cap(t.memory)]), t.kernelMap.Close())
}
