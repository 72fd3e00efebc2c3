// SPDX-License-Identifier: Apache-2.0

// Package engine runs observations for one receiver: it knows which processes are in scope,
// names what they see, keeps to the limits and hands the results on. It does not
// know the Collector.
package engine
