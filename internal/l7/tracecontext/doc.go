// SPDX-License-Identifier: Apache-2.0

// Package tracecontext reads which trace a request belongs to: W3C Trace Context, B3 in one or several fields, and SkyWalking's sw8.
//
// It is strict: a value that breaks its format's rules carries no context, since a wrong one would join requests that have nothing to
// do with each other.
package tracecontext
