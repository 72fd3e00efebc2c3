// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"os"
	"path/filepath"
)

// LoadAverage is the content of /proc/loadavg of a host (proc_loadavg(5)).
type LoadAverage struct {
	// OneMinute is the mean number of threads that run, or wait for a CPU or a disk.
	OneMinute float64
	// Threads is the number of threads.
	Threads uint64
}

// ReadLoadAverage reads the load average; proc is where the host's procfs is mounted.
func ReadLoadAverage(proc string) (LoadAverage, error) {
	text, err := os.ReadFile(filepath.Join(proc, "loadavg"))
	if err != nil {
		return LoadAverage{}, fmt.Errorf("reading the load average: %w", err)
	}
	var load LoadAverage
	var five, fifteen float64
	var running uint64
	if _, err := fmt.Sscanf(string(text), "%f %f %f %d/%d", &load.OneMinute, &five, &fifteen, &running, &load.Threads); err != nil {
		return LoadAverage{}, fmt.Errorf("reading the load average: loadavg says %q: %w", text, err)
	}
	return load, nil
}
