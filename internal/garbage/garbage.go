// SPDX-License-Identifier: Apache-2.0

// Package garbage gives memory back to the kernel that Go would keep for minutes.
package garbage

import (
	"runtime/debug"
	"runtime/metrics"
)

// largeHeap is the size of a heap that is not collected for what is gained here: that would take some 100 ms.
const largeHeap = 256 << 20

// Free collects garbage at once and gives its memory back to the kernel. Programs that have been read from an object, and have been loaded, leave
// some 25 MiB, which Go would keep for minutes; meanwhile the verifier takes as much again.
func Free() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() == metrics.KindUint64 && sample[0].Value.Uint64() < largeHeap {
		debug.FreeOSMemory()
	}
}
