// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ReadPressure returns for how long any thread of a host has waited for cpu, memory or io since boot, by the kernel's pressure stall
// information. proc is where the host's procfs is mounted. Not every kernel has it.
func ReadPressure(proc, resource string) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(proc, "pressure", resource))
	if err != nil {
		return 0, fmt.Errorf("reading the pressure on %s: %w", resource, err)
	}
	for line := range bytes.Lines(text) {
		_, total, found := bytes.Cut(line, []byte(" total="))
		if !found || !bytes.HasPrefix(line, []byte("some ")) {
			continue
		}
		const bits = 63 - 10 // of microseconds
		n, err := strconv.ParseUint(string(bytes.TrimSpace(total)), 10, bits)
		if err != nil {
			return 0, fmt.Errorf("reading the pressure on %s: %w", resource, err)
		}
		return time.Duration(n) * time.Microsecond, nil
	}
	return 0, fmt.Errorf("reading the pressure on %s: the kernel says %q", resource, text)
}
