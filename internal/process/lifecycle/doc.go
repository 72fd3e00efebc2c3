// SPDX-License-Identifier: Apache-2.0

// Package lifecycle follows fork, exec and exit in the kernel and keeps the BPF map that holds for each process which observations it is in
// scope of.
package lifecycle
