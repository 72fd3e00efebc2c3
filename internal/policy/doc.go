// SPDX-License-Identifier: Apache-2.0

// Package policy decides when something is to be started by itself: monitors give one
// value for each wall-clock second, windows keep them, rules count them, and gates hold
// a policy still for a while after it has fired. It reads no clock and no process: the
// caller passes times and what processes used.
package policy
