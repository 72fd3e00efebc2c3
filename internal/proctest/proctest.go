// SPDX-License-Identifier: Apache-2.0

// Package proctest reads, for tests and benchmarks, what the kernel says of processes and threads of this host (proc(5)). It shares no code with what is tested.
package proctest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Stat is a part of /proc/PID/stat, or of that of a thread (proc_pid_stat(5)).
type Stat struct {
	State      byte // 'R' if it runs or waits for a CPU, 'S' if it sleeps, 'D' if no signal wakes it, 'Z' if it has ended
	Parent     int
	StartTicks uint64 // since boot, in clock ticks
}

// ReadStat reads the stat of a process or thread in its folder, such as [Process] returns.
func ReadStat(folder string) (Stat, error) {
	text, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return Stat{}, err
	}
	// The manual counts fields from 1. The second one, a name in parentheses, may have any characters, so that what is counted here follows it.
	const state, parent, startTime = 0, 1, 22 - 3
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= startTime {
		return Stat{}, fmt.Errorf("reading %s/stat: %d fields after the name", folder, len(fields))
	}
	s := Stat{State: fields[state][0]}
	if s.Parent, err = strconv.Atoi(fields[parent]); err != nil {
		return Stat{}, fmt.Errorf("reading the parent in %s/stat: %w", folder, err)
	}
	if s.StartTicks, err = strconv.ParseUint(fields[startTime], 10, 64); err != nil {
		return Stat{}, fmt.Errorf("reading the start time in %s/stat: %w", folder, err)
	}
	return s, nil
}

// Process returns the folder of a process.
func Process(pid int) string { return fmt.Sprintf("/proc/%d", pid) }

// Threads returns the folders of the threads of a process, none if it has exited.
func Threads(pid int) []string {
	folder := Process(pid) + "/task/"
	threads, _ := os.ReadDir(folder)
	folders := make([]string, len(threads))
	for i, thread := range threads {
		folders[i] = folder + thread.Name()
	}
	return folders
}

// HasEnded reports whether the main thread of a process is a zombie.
func HasEnded(pid int) bool {
	s, err := ReadStat(Process(pid))
	return err == nil && s.State == 'Z'
}

// WaitsIn reports whether a process or thread, by its folder, sleeps in one of these system calls on a descriptor (proc_pid_syscall(5)).
func WaitsIn(folder string, fd int, calls ...int) bool {
	text, _ := os.ReadFile(folder + "/syscall") // none of one that has exited; "running" of one that does not sleep
	return slices.ContainsFunc(calls, func(call int) bool { return strings.HasPrefix(string(text), fmt.Sprintf("%d %#x ", call, fd)) })
}
