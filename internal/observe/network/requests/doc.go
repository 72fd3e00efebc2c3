// SPDX-License-Identifier: Apache-2.0

// Package requests aggregates exchanges by the processes that took part in them: durations and sizes by the semantic conventions of HTTP, RPC
// and DNS.
package requests
