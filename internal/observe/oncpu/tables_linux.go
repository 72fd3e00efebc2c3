// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"
)

// tables are the two tables of each CPU that has ever been online.
type tables struct {
	outer      *ebpf.Map      // index: 2*CPU + generation
	generation *ebpf.Variable // which of the two the kernel writes
	current    uint32
	spec       *ebpf.MapSpec
	byCPU      map[int][2]*table
	bytes      atomic.Uint64 // of all tables
}

// add creates the tables of a CPU, unless they are there.
func (t *tables) add(cpu int) error {
	if _, ok := t.byCPU[cpu]; ok {
		return nil
	}
	var pair [2]*table
	for i := range pair {
		created, err := newTable(t.spec)
		if err != nil {
			return errors.Join(fmt.Errorf("CPU %d: %w", cpu, err), closeTables(pair))
		}
		pair[i] = created
		if err := t.outer.Put(uint32(2*cpu+i), created.kernelMap); err != nil {
			return errors.Join(fmt.Errorf("CPU %d: offering a sample table: %w", cpu, err), closeTables(pair))
		}
	}
	t.byCPU[cpu] = pair
	t.bytes.Add(2 * uint64(t.spec.ValueSize))
	return nil
}

// flip makes the kernel write the other tables and returns those that it wrote
// so far. When it returns, no program writes them any more: updating a map of
// maps waits until all running programs have ended (kernel/bpf/syscall.c,
// maybe_wait_bpf_programs).
func (t *tables) flip() ([]*table, error) {
	full := t.current
	t.current = 1 - full
	if err := t.generation.Set(t.current); err != nil {
		return nil, fmt.Errorf("turning the sample tables: %w", err)
	}
	retired := make([]*table, 0, len(t.byCPU))
	waited := false
	for cpu, pair := range t.byCPU {
		if !waited {
			if err := t.outer.Put(uint32(2*cpu)+full, pair[full].kernelMap); err != nil {
				return nil, fmt.Errorf("waiting for the sampling programs: %w", err)
			}
			waited = true
		}
		retired = append(retired, pair[full])
	}
	return retired, nil
}

func (t *tables) close() error {
	var errs []error
	for _, pair := range t.byCPU {
		errs = append(errs, closeTables(pair))
	}
	clear(t.byCPU)
	return errors.Join(errs...)
}

func closeTables(pair [2]*table) error {
	var errs []error
	for _, t := range pair {
		if t != nil {
			errs = append(errs, t.close())
		}
	}
	return errors.Join(errs...)
}
