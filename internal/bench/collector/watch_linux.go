// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/procfs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

const (
	memoryInterval = 100 * time.Millisecond
	// firstPoll is how exactly the first sample is seen, firstTimeout how long it is waited for.
	firstPoll    = time.Millisecond
	firstTimeout = 20 * time.Second
	// sampleProgram is the name of the on-CPU program in the kernel.
	sampleProgram = "sample"
)

// Watched is what is seen of a Collector from outside.
type Watched struct {
	Memory procfs.Memory // the highest value of each, seen every 100 ms
	// FirstSample is the time from just before fork to the first run of the sampling program, as the kernel counts
	// runs; 0: none was seen.
	FirstSample time.Duration
	// Program is the kernel's id of the sampling program.
	Program ebpf.ProgramID
	Errors  error
}

// watch samples a Collector until it ends.
type watch struct {
	process *workload.Process
	ended   sync.WaitGroup

	mu   sync.Mutex
	seen Watched
}

func startWatch(process *workload.Process, after ebpf.ProgramID, receiver bool) *watch {
	w := &watch{process: process}
	w.ended.Go(w.memory)
	if receiver {
		w.ended.Go(func() { w.firstSample(after) })
	}
	return w
}

func (w *watch) wait() { w.ended.Wait() }

func (w *watch) result() Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

func (w *watch) update(change func(*Watched)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.seen)
}

func (w *watch) memory() {
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-w.process.Ended():
			return
		case <-ticker.C:
		}
		memory, err := proc.Memory(w.process.PID())
		if errors.Is(err, fs.ErrNotExist) {
			return // it has ended
		}
		w.update(func(seen *Watched) {
			seen.Memory = seen.Memory.Max(memory)
			if err != nil {
				seen.Errors = err
			}
		})
		if err != nil {
			return
		}
	}
}

// nextProgram is the id that the kernel gave last: programs that are loaded later have higher ones.
func nextProgram() (ebpf.ProgramID, error) {
	var last ebpf.ProgramID
	for {
		next, err := ebpf.ProgramGetNextID(last)
		if errors.Is(err, fs.ErrNotExist) {
			return last, nil
		}
		if err != nil {
			return 0, fmt.Errorf("listing BPF programs: %w", err)
		}
		last = next
	}
}

// firstSample waits until a sampling program that was loaded after the given one has run.
func (w *watch) firstSample(after ebpf.ProgramID) {
	first, id, err := w.awaitRun(after)
	w.update(func(seen *Watched) {
		seen.FirstSample, seen.Program = first, id
		seen.Errors = errors.Join(seen.Errors, err)
	})
}

func (w *watch) awaitRun(after ebpf.ProgramID) (time.Duration, ebpf.ProgramID, error) {
	ticker := time.NewTicker(firstPoll)
	defer ticker.Stop()
	var program *ebpf.Program
	for now := range ticker.C {
		var err error
		if program == nil {
			program, err = findProgram(w.process.PID(), after)
		}
		if err != nil {
			return 0, 0, err
		}
		runs := uint64(0)
		if program != nil {
			if runs, err = runCount(program); err != nil {
				return 0, 0, errors.Join(err, program.Close())
			}
		}
		if runs > 0 {
			return w.found(program, time.Now())
		}
		select {
		case <-w.process.Ended():
			return 0, 0, closeProgram(program)
		default:
		}
		if now.Sub(w.process.Started()) > firstTimeout {
			return 0, 0, errors.Join(fmt.Errorf("waiting for the first sample: none within %s", firstTimeout), closeProgram(program))
		}
	}
	return 0, 0, nil
}

func (w *watch) found(program *ebpf.Program, at time.Time) (time.Duration, ebpf.ProgramID, error) {
	info, err := program.Info()
	if err != nil {
		return 0, 0, errors.Join(fmt.Errorf("reading the sampling program: %w", err), program.Close())
	}
	id, _ := info.ID()
	return at.Sub(w.process.Started()), id, program.Close()
}

func closeProgram(program *ebpf.Program) error {
	if program == nil {
		return nil
	}
	return program.Close()
}

// findProgram finds the sampling program of a process among the programs that were loaded after the given one; nil: not there yet. Other
// processes on the host may load programs of the same name meanwhile.
func findProgram(pid int, after ebpf.ProgramID) (*ebpf.Program, error) {
	for {
		next, err := ebpf.ProgramGetNextID(after)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing BPF programs: %w", err)
		}
		after = next
		program, err := ebpf.NewProgramFromID(next)
		if errors.Is(err, fs.ErrNotExist) {
			continue // unloaded meanwhile, such as a probe for a feature
		}
		if err != nil {
			return nil, fmt.Errorf("opening BPF program %d: %w", next, err)
		}
		ours, err := isSampler(program, pid, next)
		if ours {
			return program, nil
		}
		if err = errors.Join(err, program.Close()); err != nil {
			return nil, fmt.Errorf("reading BPF program %d: %w", next, err)
		}
	}
}

func isSampler(program *ebpf.Program, pid int, id ebpf.ProgramID) (bool, error) {
	info, err := program.Info()
	if err != nil || info.Name != sampleProgram {
		return false, err
	}
	holds, err := proc.HoldsProgram(pid, uint32(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the process has exited, which other parts report
	}
	return holds, err
}

func runCount(program *ebpf.Program) (uint64, error) {
	stats, err := program.Stats()
	if err != nil {
		return 0, fmt.Errorf("reading the statistics of the sampling program: %w", err)
	}
	return stats.RunCount, nil
}

// ProgramRuns is what the kernel's own record of a program says: its runs and the time they took.
func ProgramRuns(id ebpf.ProgramID) (runs uint64, spent time.Duration, err error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return 0, 0, fmt.Errorf("opening BPF program %d: %w", id, err)
	}
	stats, err := program.Stats()
	if err = errors.Join(err, program.Close()); err != nil {
		return 0, 0, fmt.Errorf("reading the statistics of BPF program %d: %w", id, err)
	}
	return stats.RunCount, stats.Runtime, nil
}
