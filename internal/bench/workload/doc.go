// SPDX-License-Identifier: Apache-2.0

// Package workload starts the programs that the benchmark measures with: they are compiled where they are run, end by
// themselves, end when the benchmark ends, and listen on the loopback interface alone.
package workload
