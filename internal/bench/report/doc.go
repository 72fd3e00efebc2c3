// SPDX-License-Identifier: Apache-2.0

// Package report holds what the benchmark has measured, compares it with the targets and prints it. It measures nothing.
package report
