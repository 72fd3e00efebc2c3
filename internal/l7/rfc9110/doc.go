// SPDX-License-Identifier: Apache-2.0

// Package rfc9110 knows what all versions of HTTP have in common: methods, statuses and the parts of a path, with the names that the
// semantic conventions have for them.
package rfc9110
