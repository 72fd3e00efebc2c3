// SPDX-License-Identifier: Apache-2.0

// Package lifecycle follows fork, exec and exit in the kernel and keeps the BPF
// map that tells every observation who is in scope.
package lifecycle
