// SPDX-License-Identifier: Apache-2.0

// Package tls finds the functions of a binary that encrypt and decrypt for a program, by their names. Libraries export these, and Go's own
// tables have them, so that nothing is guessed from a version.
package tls
