// SPDX-License-Identifier: Apache-2.0

// Package functions attaches programs to functions of user space: to those that are
// looked for in what processes in scope have mapped, process by process, and for as
// long as these stay in scope and have it mapped.
package functions
