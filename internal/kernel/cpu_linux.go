// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// OnlineCPUs returns the CPUs that are online, in ascending order. sysfs is
// where the host's sysfs is mounted.
func OnlineCPUs(sysfs string) ([]int, error) {
	path := sysfs + "/devices/system/cpu/online"
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the list of online CPUs: %w", err)
	}
	cpus, err := parseCPUList(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return cpus, nil
}

// maxCPUs bounds the CPUs of a list; CONFIG_NR_CPUS is at most 8192.
const maxCPUs = 8192

// parseCPUList reads the kernel's format for CPU lists, such as "0-3,8", in
// ascending order (lib/bitmap.c, bitmap_print_to_pagebuf).
func parseCPUList(list string) ([]int, error) {
	var cpus []int
	if list == "" {
		return nil, nil
	}
	next := uint64(0) // the lowest that may follow: each CPU comes once, so the list is bounded
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("parsing CPU list %q: %w", list, err)
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("parsing CPU list %q: %w", list, err)
		}
		if from < next || to < from || to >= maxCPUs {
			return nil, fmt.Errorf("parsing CPU list %q: range %s is out of bounds", list, part)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
		next = to + 1
	}
	return cpus, nil
}
