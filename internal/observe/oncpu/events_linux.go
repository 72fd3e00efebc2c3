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

// setPeriod says what the events fire at from now on, on average.
func (e *events) setPeriod(period time.Duration) error {
	e.dither = dither{period: period}
	e.current = e.dither.turn(time.Now())
	return e.setAll()
}

// turn begins the next turn of the dither, when it is due. Cycles of a CPU keep
// step with no clock: they need none.
func (e *events) turn(now time.Time) error {
	if e.source == kernel.Cycles || !e.dither.due(now) {
		return nil
	}
	e.current = e.dither.turn(now)
	return e.setAll()
}

func (e *events) setAll() error {
	period := e.firing()
	return e.each(func(event *kernel.PerfEvent) error { return event.SetPeriod(period) })
}

// firing is the period that an event fires at now.
func (e *events) firing() time.Duration {
	if e.source == kernel.Cycles {
		return e.dither.period
	}
	return e.current
}

func (e *events) each(do func(*kernel.PerfEvent) error) error {
	var errs []error
	for _, event := range e.byCPU {
		errs = append(errs, do(event))
	}
	return errors.Join(errs...)
}

// follow opens an event on each CPU of online in place of the one that was there: a
// CPU that went offline has disabled its event for good, and nothing tells so when it
// is back already. Where none can be opened the old one stays. A CPU that vanishes
// between the list and the call is no error.
func (e *events) follow(online []int) error {
	there := map[int]bool{}
	var errs []error
	for _, cpu := range online {
		event, err := kernel.OpenPerfEvent(e.source, cpu, e.firing(), e.program)
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

// close ends all events; follow may open them again.
func (e *events) close() error {
	var errs []error
	for cpu, event := range e.byCPU {
		errs = append(errs, event.Close())
		delete(e.byCPU, cpu)
	}
	return errors.Join(errs...)
}
