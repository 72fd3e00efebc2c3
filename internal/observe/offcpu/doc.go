// SPDX-License-Identifier: Apache-2.0

// Package offcpu observes how long threads wait, where and why: the time between
// leaving a CPU and running again is measured at the scheduler's switch, and summed
// by thread, reason and stack in the kernel.
package offcpu
