// SPDX-License-Identifier: Apache-2.0

// Package reference is the yard-stick of the kernel side: the program that a sampling profiler is usually built on, two
// calls of bpf_get_stackid and a hash map of counts. Measured in the same run as ours it tells what is the machine's and
// what is the program's.
package reference
