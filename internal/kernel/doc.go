// SPDX-License-Identifier: Apache-2.0

// Package kernel loads BPF programs, attaches them and reports what the running kernel and the process's privileges allow. It does not depend
// on what the programs observe.
package kernel
