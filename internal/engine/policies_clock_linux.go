// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
)

// clock is how seconds are counted. Its methods may be called from any goroutine.
type clock struct {
	mu   sync.Mutex
	line policy.Timeline
	// asleep is how far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC.
	asleep time.Duration
	// read reads the clocks at one moment; nil: those of the system.
	read func() clocks
}

// clocks are how they stand at one moment. boot is what seconds and silence are counted by.
type clocks struct {
	wall            time.Time
	boot, monotonic time.Duration
}

func (c *clock) now() clocks {
	if c.read != nil {
		return c.read()
	}
	boot := clockNow(unix.CLOCK_BOOTTIME)
	return clocks{boot: boot, monotonic: clockNow(unix.CLOCK_MONOTONIC), wall: time.Now()}
}

// boot is CLOCK_BOOTTIME.
func (c *clock) boot() time.Duration { return c.now().boot }

// follow reads the clocks and returns CLOCK_BOOTTIME, the second which that falls in, when
// it ends, and by how much the wall clock was set since the last call.
func (c *clock) follow() (now time.Duration, second int64, ends time.Duration, stepped int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.now()
	now, c.asleep = all.boot, all.boot-all.monotonic
	stepped = c.line.Follow(all.wall, now)
	second = c.line.Second(now)
	return now, second, c.line.Ends(second), stepped
}

// ahead is by how much a clock is ahead of CLOCK_MONOTONIC whose seconds are those that are counted here.
func (c *clock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.Ahead() + c.asleep
}

// second is that of a moment of CLOCK_MONOTONIC, in ns.
func (c *clock) second(monotonic int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.Second(time.Duration(monotonic) + c.asleep)
}

// clockNow reads a clock that every kernel has.
func clockNow(clock int32) time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(clock, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
