// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// events are the perf events, one on each online CPU.
type events struct {
	program *ebpf.Program
	source  kernel.PerfSource
	dither  dither
	// current is the period of the running turn of dither.
	current time.Duration
	byCPU   map[int]*kernel.PerfEvent
}

// setPeriod says what the events that are opened next fire at, on average.
func (e *events) setPeriod(period time.Duration) {
	e.dither = dither{period: period}
	e.current = e.dither.turn(time.Now())
}

// turn begins the next turn of the dither, when it is due. Cycles of a CPU keep
// step with no clock: they need none.
func (e *events) turn(now time.Time) error {
	if e.source == kernel.Cycles || !e.dither.due(now) {
		return nil
	}
	e.current = e.dither.turn(now)
	var errs []error
	for _, event := range e.byCPU {
		errs = append(errs, event.SetPeriod(e.current))
	}
	return errors.Join(errs...)
}

// follow opens events on the CPUs of online that have none, and anew on those
// that were away: a CPU that goes offline disables its events for good. A CPU
// that vanishes between the list and the call is no error.
func (e *events) follow(online []int) error {
	there := map[int]bool{}
	period := e.current
	if e.source == kernel.Cycles {
		period = e.dither.period
	}
	var errs []error
	for _, cpu := range online {
		there[cpu] = true
		if _, ok := e.byCPU[cpu]; ok {
			continue
		}
		event, err := kernel.OpenPerfEvent(e.source, cpu, period, e.program)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
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

// close ends all events; follow may open them again.
func (e *events) close() error {
	var errs []error
	for cpu, event := range e.byCPU {
		errs = append(errs, event.Close())
		delete(e.byCPU, cpu)
	}
	return errors.Join(errs...)
}
