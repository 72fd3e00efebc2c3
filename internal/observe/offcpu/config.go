// SPDX-License-Identifier: Apache-2.0

package offcpu

import "time"

// Config is what an off-CPU observation can be told.
type Config struct {
	// MinBlock is the shortest wait that is told with its stack; what is shorter is
	// summed for each thread.
	MinBlock time.Duration
	// MaxBlock is the longest wait that is told at all; 0: no maximum.
	MaxBlock time.Duration
	// KernelStacks and UserStacks say which stacks a sample has.
	KernelStacks, UserStacks bool
	// MaxDepth is the number of frames of each of the two stacks, at most
	// stacks.MaxDepth.
	MaxDepth int
	// MapBytes bounds the memory of the kernel's tables, over all CPUs.
	MapBytes uint64
	// SampleBytes bounds the memory of one interval's samples in user space.
	SampleBytes uint64
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
}
