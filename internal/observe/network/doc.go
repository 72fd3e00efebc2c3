// SPDX-License-Identifier: Apache-2.0

// Package network observes connections: which processes communicate with which peers, how much, how fast, and why not. The kernel aggregates;
// this package resolves the peers and makes the metrics.
package network
