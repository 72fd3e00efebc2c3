// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import "github.com/otelcol-ebpf/ebpfreceiver/internal/observe"

// Record is the whole way of a kind's observations, from the kernel's tables to
// profiles. A kind embeds it for what all observations must tell.
type Record struct {
	*Tables
	*Collector
}

// Drain reads and clears the tables that the kernel has written.
func (r Record) Drain() error {
	err := r.Tables.Drain(r.Collector.Add)
	r.Collector.Drained()
	return err
}

// Losses counts what could not be kept, or not whole, since the start.
func (r Record) Losses() []observe.Loss {
	return append(r.Tables.Losses(), r.Collector.Losses()...)
}
