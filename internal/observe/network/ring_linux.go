// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// records is the reader of the ring buffer.
type records interface {
	SetDeadline(time.Time)
	ReadInto(*ringbuf.Record) error
	Flush() error
	Close() error
}

// ring reads the records of the ring buffer, in the goroutine that calls read.
type ring struct {
	records
	// arm makes the programs wake the reader again when enough bytes wait.
	arm  func() error
	last ringbuf.Record

	failures atomic.Uint64
	mu       sync.Mutex
	failed   error // the last failure that was not returned yet
}

func openRing(coll *ebpf.Collection) (*ring, error) {
	reader, err := ringbuf.NewReader(coll.Maps[bindings.NetworkCaptureMapNetworkSegments])
	if err != nil {
		return nil, fmt.Errorf("opening the ring buffer of captured bytes: %w", err)
	}
	woken := coll.Variables[bindings.NetworkCaptureVarCaptureWoken]
	return &ring{records: reader, arm: func() error { return woken.Set(uint32(0)) }}, nil
}

// read reads records until the deadline, and then all that were written before it. It returns [ringbuf.ErrFlushed] after all records that
// were written before a flush, and [os.ErrClosed] when the ring is closed.
func (r *ring) read(until time.Time, take func([]byte)) error {
	r.SetDeadline(until)
	for {
		switch err := r.ReadInto(&r.last); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return fmt.Errorf("reading the captured bytes of connections: %w", err)
		}
		take(r.last.RawSample)
		if r.last.Remaining > 0 {
			continue
		}
		// The reader sleeps if nothing comes now. A program that wakes it has set the variable before it wrote the record that is read, and
		// records that are written later are found in either case.
		if err := r.arm(); err != nil {
			return fmt.Errorf("arming the wake-up for captured bytes: %w", err)
		}
	}
}

// fail notes an error, which failure returns once.
func (r *ring) fail(err error) {
	r.failures.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// failure returns the last error since the last call, or nil.
func (r *ring) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.failed
	r.failed = nil
	return err
}
