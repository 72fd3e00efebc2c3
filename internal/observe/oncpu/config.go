// SPDX-License-Identifier: Apache-2.0

package oncpu

import "time"

// Config is what an on-CPU observation can be told.
type Config struct {
	// Period is the time between two samples on each CPU.
	Period time.Duration
	// Cycles takes samples by the hardware's cycle counter instead of the timer.
	Cycles bool
	// KernelStacks and UserStacks say which stacks a sample has.
	KernelStacks, UserStacks bool
	// MaxDepth is the number of frames of each of the two stacks, at most stacks.MaxDepth.
	MaxDepth int
	// MapBytes bounds the memory of the kernel's tables, over all CPUs.
	MapBytes uint64
	// SampleBytes bounds the memory of one interval's samples in user space.
	SampleBytes uint64
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
}
