// SPDX-License-Identifier: Apache-2.0

// Package hosted runs parts of the BPF programs as functions of a program in user space: helpers and maps are those of testdata/host.c and
// testdata/bpf. So sanitizers see what the code does with hostile bytes, and no privilege or kernel is needed.
package hosted
