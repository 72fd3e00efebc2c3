// SPDX-License-Identifier: Apache-2.0

// Package report holds what was found of programs against the targets and prints it.
package report
