// SPDX-License-Identifier: Apache-2.0

// Package usage reads the CPU time and the threads of many processes at once.
package usage
