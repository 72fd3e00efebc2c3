// SPDX-License-Identifier: Apache-2.0

package kernel

import "github.com/cilium/ebpf"

// MapBytes sums the memory of maps by the kernel's own account, in bytes, without the maps of others, by name. If the kernel does not report
// it, as of ring buffers from 5.11 to 6.2, it is the size of the entries.
func MapBytes(maps, others map[string]*ebpf.Map) (sum uint64) {
	for name, m := range maps {
		if _, ok := others[name]; ok {
			continue
		}
		if info, err := m.Info(); err == nil {
			if bytes, ok := info.Memlock(); ok && bytes > 0 {
				sum += bytes
				continue
			}
		}
		sum += entryBytes(m.Type(), uint64(m.MaxEntries()), uint64(m.KeySize())+uint64(m.ValueSize()))
	}
	return sum
}

// entryBytes is the size of the entries of a map; those of a ring buffer are bytes.
func entryBytes(kind ebpf.MapType, entries, size uint64) uint64 {
	if kind == ebpf.RingBuf {
		return entries
	}
	return entries * size
}
