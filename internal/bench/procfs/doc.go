// SPDX-License-Identifier: Apache-2.0

// Package procfs reads what the benchmark takes for the truth: CPU time and memory of processes and the host's idle time,
// from the files that proc(5) describes.
package procfs
