// SPDX-License-Identifier: Apache-2.0

// Package report compares what was found of programs with the targets and prints it.
package report
