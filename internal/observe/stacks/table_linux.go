// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
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
	memory, err := kernel.MapArray(m, int(spec.ValueSize))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mapping a sample table: %w", err), m.Close())
	}
	return &table{kernelMap: m, memory: memory[:spec.ValueSize]}, nil
}

func (t *table) head() *bindings.OnCPUStackTable {
	return (*bindings.OnCPUStackTable)(unsafe.Pointer(unsafe.SliceData(t.memory)))
}

// each calls visit with every entry of the table.
func (t *table) each(visit func(Entry)) error {
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

// fill is how much of the room for entries is in use, from 0 to 1.
func (t *table) fill() float64 {
	return float64(t.head().Used) / float64(len(t.memory)-tableHeadBytes)
}

// clear makes the table ready for the kernel to write.
func (t *table) clear() { clear(t.memory[:tableHeadBytes]) }

func (t *table) close() error {
	return errors.Join(unix.Munmap(t.memory[:cap(t.memory)]), t.kernelMap.Close())
}
