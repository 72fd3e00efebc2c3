// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// PerfEvents are the events of one program, one on each CPU. Its methods must be called from one goroutine, except Len.
type PerfEvents struct {
	Program *ebpf.Program
	Source  PerfSource

	byCPU   map[int]*PerfEvent
	open    atomic.Int64
	leftOut error
}

// Follow opens an event on each CPU of online and replaces the former one: a CPU that went offline has disabled its event for good, and
// nothing shows that if it is online again. If none can be opened, the old one stays. A CPU that vanishes between the list and the call is no
// error.
func (e *PerfEvents) Follow(online []int, period time.Duration) error {
	if e.byCPU == nil {
		e.byCPU = map[int]*PerfEvent{}
	}
	defer e.counted()
	e.leftOut = nil
	there := map[int]bool{}
	var errs []error
	for _, cpu := range online {
		event, err := OpenPerfEvent(e.Source, cpu, period, e.Program)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		there[cpu] = true
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if old, ok := e.byCPU[cpu]; ok {
			errs = append(errs, old.Close())
		}
		e.byCPU[cpu] = event
	}
	for cpu, event := range e.byCPU {
		if !there[cpu] {
			errs = append(errs, event.Close())
			delete(e.byCPU, cpu)
		}
	}
	return errors.Join(errs...)
}

// Partly returns the error of the first Follow, but nil if some CPUs have an event and no file descriptors were left for the others: LeftOut
// reports that, and the next Follow tries again.
func (e *PerfEvents) Partly(err error) error {
	if e.Len() == 0 || !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
		return err
	}
	e.leftOut = err
	return nil
}

// LeftOut is why CPUs were left without an event, as passed to Partly, until the next Follow; or nil.
func (e *PerfEvents) LeftOut() error { return e.leftOut }

// Each calls a function for every event.
func (e *PerfEvents) Each(do func(*PerfEvent) error) error {
	var errs []error
	for _, event := range e.byCPU {
		errs = append(errs, do(event))
	}
	return errors.Join(errs...)
}

// Len is the number of CPUs that have an event. It is safe for concurrent use.
func (e *PerfEvents) Len() int { return int(e.open.Load()) }

// Close closes all events; Follow may open them again.
func (e *PerfEvents) Close() error {
	err := e.Each((*PerfEvent).Close)
	clear(e.byCPU)
	e.counted()
	return err
}

func (e *PerfEvents) counted() { e.open.Store(int64(len(e.byCPU))) }
