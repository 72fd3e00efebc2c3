// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

type (
	slot   = bindings.NetworkNetworkSeries
	record = bindings.NetworkNetworkRecord
	key    = bindings.NetworkNetworkKey
)

// shared is a kernel's array that is mapped and that both sides write.
type shared[T any] struct {
	raw   []byte
	items []T
}

func share[T any](m *ebpf.Map) (shared[T], error) {
	var item T
	if size := unsafe.Sizeof(item); uintptr(m.ValueSize()) != size {
		return shared[T]{}, fmt.Errorf("mapping %s: its entries have %d bytes, want %d", m, m.ValueSize(), size)
	}
	raw, err := kernel.MapArray(m, int(m.MaxEntries())*int(unsafe.Sizeof(item)))
	if err != nil {
		return shared[T]{}, fmt.Errorf("mapping %s: %w", m, err)
	}
	return shared[T]{raw: raw, items: unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), m.MaxEntries())}, nil
}

func (s *shared[T]) close() error {
	if s.raw == nil {
		return nil
	}
	if err := unix.Munmap(s.raw); err != nil {
		return fmt.Errorf("unmapping a table: %w", err)
	}
	*s = shared[T]{}
	return nil
}
