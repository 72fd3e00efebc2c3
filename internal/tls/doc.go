// SPDX-License-Identifier: Apache-2.0

// Package tls finds the functions of a binary that encrypt and decrypt for a program: by
// their names, which libraries export and Go's own tables have, so that nothing is
// guessed of a version.
package tls
