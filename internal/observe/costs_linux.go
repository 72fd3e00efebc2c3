// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package observe

import (
	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// Costs reads the kernel's run-time statistics of all programs of an object.
func Costs(coll *ebpf.Collection) ([]ProgramCost, error) {
	costs := make([]ProgramCost, 0, len(coll.Programs))
	for name, program := range coll.Programs {
		cost, err := kernel.Cost(program)
		if err != nil {
			return nil, err
		}
		costs = append(costs, ProgramCost{Program: name, Runs: cost.Runs, Time: cost.Time, Missed: cost.Missed})
	}
	return costs, nil
}
