// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
)

// all has a line for each kind, in the order in which they are started and documented.
var all = []*observe.Descriptor{
	oncpu.Descriptor,
	offcpu.Descriptor,
	memory.Descriptor,
	network.Descriptor,
	network.Monitors,
}
