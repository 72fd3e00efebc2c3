// SPDX-License-Identifier: Apache-2.0

// Package reference is the baseline of the kernel side: the program that a sampling profiler is usually built on, two calls of
// bpf_get_stackid and a hash map of counts. Measured in the same run as the receiver's, it separates the cost of the machine from that of
// the program.
package reference
