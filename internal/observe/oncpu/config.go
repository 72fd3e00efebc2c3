// SPDX-License-Identifier: Apache-2.0

package oncpu

// Config configures an observation.
type Config struct {
	Options
	// MapBytes bounds the memory of the kernel's tables, over all CPUs.
	MapBytes uint64
	// SampleBytes bounds the memory of one interval's samples in user space.
	SampleBytes uint64
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
}
