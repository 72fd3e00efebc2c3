// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

const (
	// maxDepartures bounds the threads that have left of which a stack is kept.
	maxDepartures = 8192
	// departureHead is the size of what is kept in addition to the entry (struct
	// departure), hashBytes of what the kernel needs for each.
	departureHead = 8
	hashBytes     = 64
)

// departures are the stacks of threads that have left their CPU, kept where no hook
// sees them run again (departure.h).
type departures struct {
	most  uint32 // 0 where they are not needed
	bytes uint32 // of each
}

func planDepartures(depth stacks.Depth, mapBytes uint64) departures {
	bytes := uint32(departureHead + depth.EntryBytes())
	return departures{most: uint32(min(maxDepartures, mapBytes/uint64(bytes+hashBytes))), bytes: bytes}
}

// apply sizes the maps, where they are needed.
func (d departures) apply(spec *ebpf.CollectionSpec) {
	if d.most == 0 {
		return
	}
	kept, making := spec.Maps[bindings.OffCPUMapDepartures], spec.Maps[bindings.OffCPUMapDeparting]
	kept.MaxEntries, kept.ValueSize, making.ValueSize = d.most, d.bytes, d.bytes
}
