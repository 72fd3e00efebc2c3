// SPDX-License-Identifier: Apache-2.0

// Package kernel loads BPF programs, attaches them and tells what the running
// kernel and the process's privileges allow. It knows nothing of what the
// programs observe.
package kernel
