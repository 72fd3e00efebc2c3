// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ProgramCost is the cost of a program since it was loaded, by the kernel's statistics.
type ProgramCost struct {
	Runs uint64
	Time time.Duration
	// Missed is how often the kernel did not run the program, because it was already running on the same CPU (bpf_prog_inc_misses_counter).
	// Kernels before 5.12 do not count that, and no kernel does for programs of perf events.
	Missed uint64
}

// EnableRunStats makes the kernel measure the run time of BPF programs until
// the returned closer is closed. Measuring costs two clock reads per run.
func EnableRunStats() (io.Closer, error) {
	closer, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("enabling run-time statistics of BPF programs, which limits::cpu_percent counts: %w; grant CAP_SYS_ADMIN", err)
	}
	if err != nil {
		return nil, fmt.Errorf("enabling run-time statistics of BPF programs: %w", err)
	}
	return closer, nil
}

// Cost reads the run-time statistics of a program.
func Cost(program *ebpf.Program) (ProgramCost, error) {
	stats, err := program.Stats()
	if err != nil {
		return ProgramCost{}, fmt.Errorf("reading run-time statistics of %s: %w", program, err)
	}
	return ProgramCost{Runs: stats.RunCount, Time: stats.Runtime, Missed: stats.RecursionMisses}, nil
}
