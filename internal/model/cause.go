// SPDX-License-Identifier: Apache-2.0

package model

// Cause is one rule of a policy that holds: why something was started by itself.
type Cause struct {
	// Monitor is what was looked at, such as process_cpu.
	Monitor string
	// Threshold is what was configured, Value the last one that reached it, both in the
	// monitor's unit.
	Threshold, Value float64
	// Path is what narrowed a monitor of requests: the path of uri_list or the pattern of
	// uri_regex; empty where nothing did.
	Path string
}
