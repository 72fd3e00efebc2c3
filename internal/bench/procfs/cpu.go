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
	"time"
)

// tick is 1/USER_HZ, the unit of /proc/stat on every supported architecture.
const tick = 10 * time.Millisecond

// FS is a proc file system by its path, such as /proc.
type FS string

// CPUTime is the time that the living threads of a process have run, user and kernel side: the sum of the first field of
// /proc/PID/task/*/schedstat, which the scheduler keeps in nanoseconds.
func (p FS) CPUTime(pid int) (time.Duration, error) {
	pattern := filepath.Join(string(p), strconv.Itoa(pid), "task", "*", "schedstat")
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return 0, errors.Join(fmt.Errorf("reading the CPU time of process %d: no threads at %s", pid, pattern), err)
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a thread that has just ended
		}
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading %s: time run: %w", file, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// Idle is what the host has done with its CPUs since boot.
type Idle struct {
	CPUs  int
	Idle  time.Duration // of all CPUs, waiting for I/O included
	Steal time.Duration // taken away by the hypervisor
}

// HostIdle reads /proc/stat. Idle time is what the kernel measures when a CPU enters and leaves idle, not what ticks see.
func (p FS) HostIdle() (Idle, error) {
	path := filepath.Join(string(p), "stat")
	text, err := os.ReadFile(path)
	if err != nil {
		return Idle{}, fmt.Errorf("reading the host's idle time: %w", err)
	}
	var out Idle
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu"):
		case fields[0] == "cpu":
			if out.Idle, err = ticks(fields[4], fields[5]); err == nil {
				out.Steal, err = ticks(fields[8])
			}
			if err != nil {
				return Idle{}, fmt.Errorf("reading %s: %w", path, err)
			}
		default:
			out.CPUs++
		}
	}
	if out.CPUs == 0 {
		return Idle{}, fmt.Errorf("reading %s: it lists no CPU", path)
	}
	return out, nil
}

func ticks(fields ...string) (time.Duration, error) {
	var sum time.Duration
	for _, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("number of ticks: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
