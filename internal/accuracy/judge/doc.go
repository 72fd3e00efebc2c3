// SPDX-License-Identifier: Apache-2.0

// Package judge says how good stacks are, by what the binaries themselves show: their entry points, the code around an
// address, their symbol tables, read by the standard library and not by the code that made the stacks.
package judge
