// SPDX-License-Identifier: Apache-2.0

// Command cardinality measures how many lines and bytes a Prometheus scrapes from the built distribution over time, on a host with many
// processes and short-lived ones, by the default configuration.
package main
