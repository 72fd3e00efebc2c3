// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// events are the perf events, one on each online CPU.
type events struct {
	kernel.PerfEvents
	dither dither
	// current is the period of the running turn of dither.
	current time.Duration
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
	if e.Source == kernel.Cycles || !e.dither.due(now) {
		return nil
	}
	e.current = e.dither.turn(now)
	return e.setAll()
}

func (e *events) setAll() error {
	period := e.firing()
	return e.Each(func(event *kernel.PerfEvent) error { return event.SetPeriod(period) })
}

// firing is the period that an event fires at now.
func (e *events) firing() time.Duration {
	if e.Source == kernel.Cycles {
		return e.dither.period
	}
	return e.current
}

// follow opens events on the CPUs that are online.
func (e *events) follow(online []int) error { return e.Follow(online, e.firing()) }
