// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Record takes a kind's observations from the kernel's tables to profiles. A kind
// embeds it for the methods that all observations must have.
type Record struct {
	*Tables
	*Collector

	sysRoot string // where the host's sysfs is mounted
}

// CPUsChanged makes tables for CPUs that came.
func (r Record) CPUsChanged() error {
	_, err := r.FollowCPUs()
	return err
}

// FollowCPUs makes tables for CPUs that came, and returns those that are online.
func (r Record) FollowCPUs() ([]int, error) {
	online, err := kernel.OnlineCPUs(r.sysRoot)
	if err != nil {
		return nil, err
	}
	return online, r.AddCPUs(online)
}

// Drain reads and clears the tables that the kernel has written.
func (r Record) Drain() error {
	err := r.Tables.Drain(r.Collector.Add)
	r.Collector.Drained(r.Tables.flipped)
	return err
}

// Losses counts what could not be kept, or not whole, since the start.
func (r Record) Losses() []observe.Loss {
	return append(r.Tables.Losses(), r.Collector.Losses()...)
}
