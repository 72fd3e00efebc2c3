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

// records is the ring buffer, as far as it is read.
type records interface {
	SetDeadline(time.Time)
	ReadInto(*ringbuf.Record) error
	Flush() error
	Close() error
}

// ring reads what programs write to the ring buffer, in the goroutine that looks.
type ring struct {
	records
	// arm has the programs wake the reader again when enough bytes wait.
	arm  func() error
	read ringbuf.Record

	failures atomic.Uint64
	mu       sync.Mutex
	failed   error // the last failure that was not told yet
}

func openRing(coll *ebpf.Collection) (*ring, error) {
	reader, err := ringbuf.NewReader(coll.Maps[bindings.NetworkMapNetworkPieces])
	if err != nil {
		return nil, fmt.Errorf("opening the ring buffer of what connections carry: %w", err)
	}
	woken := coll.Variables[bindings.NetworkVarCaptureWoken]
	return &ring{records: reader, arm: func() error { return woken.Set(uint32(0)) }}, nil
}

// look takes records until the deadline, which then holds all that were written
// before it. It returns [ringbuf.ErrFlushed] when it has taken all that were written
// before a flush, and [os.ErrClosed] when the ring is closed.
func (r *ring) look(until time.Time, take func([]byte)) error {
	r.SetDeadline(until)
	for {
		switch err := r.ReadInto(&r.read); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return fmt.Errorf("reading what connections carry: %w", err)
		}
		take(r.read.RawSample)
		if r.read.Remaining > 0 {
			continue
		}
		// The reader sleeps if nothing comes now. Whoever wakes it has said so before it
		// wrote the record that is read, and what is written later is found either way.
		if err := r.arm(); err != nil {
			return fmt.Errorf("asking to be woken when connections carry more: %w", err)
		}
	}
}

// fail notes what went wrong; it is told once.
func (r *ring) fail(err error) {
	r.failures.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// failure is what went wrong since it was asked for last, or nil.
func (r *ring) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.failed
	r.failed = nil
	return err
}
