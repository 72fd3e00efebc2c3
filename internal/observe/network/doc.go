// SPDX-License-Identifier: Apache-2.0

// Package network observes connections: who talks to whom, how much, how fast and why
// not. The kernel adds up; this room finds out who is meant and makes metrics of it.
package network
