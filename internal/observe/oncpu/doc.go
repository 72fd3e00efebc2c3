// SPDX-License-Identifier: Apache-2.0

// Package oncpu observes what runs on the CPUs: a timer on each CPU samples the
// running thread's kernel and user stack, and equal samples are counted in the
// kernel. User space reads the counts through shared memory.
package oncpu
