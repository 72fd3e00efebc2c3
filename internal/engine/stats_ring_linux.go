// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ringFill is how full a BPF ring buffer is. Its map begins with two pages that
// hold the position of the consumer and that of the producer
// (kernel/bpf/ringbuf.c, struct bpf_ringbuf); what lies between waits to be read.
type ringFill struct {
	positions []byte // the two pages; nil before open and after close
	size      uint64 // bytes
	highest   highest
}

func (r *ringFill) open(ring *ebpf.Map) error {
	positions, err := unix.Mmap(ring.FD(), 0, 2*os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the positions of a ring buffer: %w", err)
	}
	r.positions, r.size = positions, uint64(ring.MaxEntries())
	return nil
}

// sample notes how full the ring is now.
func (r *ringFill) sample(now time.Time) {
	if r.positions == nil {
		return
	}
	consumer := atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.positions[0])))
	producer := atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.positions[os.Getpagesize()])))
	// The consumer may have gone on between the two: that does not fill the ring.
	r.highest.add(now, float64(min(producer-consumer, r.size))/float64(r.size))
}

func (r *ringFill) close() error {
	if r.positions == nil {
		return nil
	}
	err := unix.Munmap(r.positions)
	r.positions = nil
	return err
}
