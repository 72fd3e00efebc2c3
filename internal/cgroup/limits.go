// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Limits are those of a process.
type Limits struct {
	// Memory is the limit of memory in bytes, 0 for none, and MemoryFile the file that sets it.
	Memory     uint64
	MemoryFile string
	// CPUs is the limit of CPU time, in CPUs, 0 for none, and CPUFile the file that sets it.
	CPUs    float64
	CPUFile string
}

// Read returns the limits of this process.
func Read() (Limits, error) { return read("/") }

// read reads below root, where tests have other files.
func read(root string) (limits Limits, err error) {
	groups, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if errors.Is(err, fs.ErrNotExist) {
		return Limits{}, nil // a kernel without control groups
	}
	if err != nil {
		return Limits{}, fmt.Errorf("reading the control groups of this process: %w", err)
	}
	mounts, err := os.ReadFile(path.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return Limits{}, fmt.Errorf("reading where control groups are mounted: %w", err)
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for _, controller := range strings.Split(fields[1], ",") {
			for _, folder := range folders(string(mounts), controller, fields[2]) {
				err = errors.Join(err, limits.take(root, folder, controller))
			}
		}
	}
	return limits, err
}

// folders are those of a control group and its parents, as far as they are mounted. controller is "" for version 2.
func folders(mounts, controller, group string) (list []string) {
	for line := range strings.Lines(mounts) {
		m, ok := parseMount(line)
		if !ok || !m.has(controller) {
			continue
		}
		below := strings.TrimPrefix(group, m.root)
		if m.root != "/" && (below == group || below != "" && below[0] != '/') {
			below = "/" // another part of the hierarchy is mounted: that of the container
		}
		for at := path.Join("/", below); ; at = path.Dir(at) {
			list = append(list, path.Join(m.point, at))
			if at == "/" {
				break
			}
		}
	}
	return list
}

// take takes what limits the control group of a folder sets. Files that do not exist, as those of the root, set none.
func (l *Limits) take(root, folder, controller string) error {
	switch controller {
	case "": // version 2
		return errors.Join(l.takeMemory(root, folder+"/memory.max"), l.takeCPUMax(root, folder+"/cpu.max"))
	case "memory":
		return l.takeMemory(root, folder+"/memory.limit_in_bytes")
	case "cpu":
		return l.takeCPUQuota(root, folder)
	}
	return nil
}

// noMemory is the least number of bytes that is no limit: without one the files of version 1 say the most that the kernel counts.
const noMemory = 1 << 60

func (l *Limits) takeMemory(root, file string) error {
	text, err := readText(root, file)
	if err != nil || text == "" || text == "max" {
		return err
	}
	bytes, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("reading a limit of memory: %s says %q: %w", file, text, err)
	}
	if bytes < noMemory && (l.Memory == 0 || bytes < l.Memory) {
		l.Memory, l.MemoryFile = bytes, file
	}
	return nil
}

// takeCPUMax reads "QUOTA PERIOD", where QUOTA may be "max".
func (l *Limits) takeCPUMax(root, file string) error {
	text, err := readText(root, file)
	if err != nil || text == "" {
		return err
	}
	quota, period, _ := strings.Cut(text, " ")
	if quota == "max" {
		return nil
	}
	return l.takeCPUs(file, quota, period)
}

// takeCPUQuota reads the two files of version 1; a quota of -1 is none.
func (l *Limits) takeCPUQuota(root, folder string) error {
	file := folder + "/cpu.cfs_quota_us"
	quota, err := readText(root, file)
	if err != nil || quota == "" || quota == "-1" {
		return err
	}
	period, err := readText(root, folder+"/cpu.cfs_period_us")
	if err != nil {
		return err
	}
	return l.takeCPUs(file, quota, period)
}

func (l *Limits) takeCPUs(file, quota, period string) error {
	q, err := strconv.ParseUint(quota, 10, 63)
	if err != nil {
		return fmt.Errorf("reading a limit of CPU time: the quota of %s is %q: %w", file, quota, err)
	}
	p, err := strconv.ParseUint(period, 10, 63)
	if err != nil || p == 0 {
		return fmt.Errorf("reading a limit of CPU time: the period of %s is %q", file, period)
	}
	if cpus := float64(q) / float64(p); l.CPUs == 0 || cpus < l.CPUs {
		l.CPUs, l.CPUFile = cpus, file
	}
	return nil
}

// readText returns the text of a file without the space around it, "" if there is no such file.
func readText(root, file string) (string, error) {
	text, err := os.ReadFile(path.Join(root, file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading a limit of this process: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
