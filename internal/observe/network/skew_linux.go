// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// skew measures by how much CLOCK_MONOTONIC, which times calls, is slewed against the hardware clock, by which the scheduler counts CPU time.
// The CPU time of a call that waited is the difference of both.
type skew struct {
	monotonic, raw int64
}

// skewPeriod is long enough to compare the clocks, which are read one after the other, to less than a part in a million.
const skewPeriod = time.Second

// measure returns the skew since the last call, in parts of 2^32; false if the last call was less than skewPeriod ago.
func (s *skew) measure() (int64, bool, error) {
	var monotonic, raw unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic); err != nil {
		return 0, false, fmt.Errorf("reading CLOCK_MONOTONIC: %w", err)
	}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &raw); err != nil {
		return 0, false, fmt.Errorf("reading CLOCK_MONOTONIC_RAW: %w", err)
	}
	before := *s
	if before.raw != 0 && raw.Nano()-before.raw < skewPeriod.Nanoseconds()/2 {
		return 0, false, nil
	}
	s.monotonic, s.raw = monotonic.Nano(), raw.Nano()
	if before.raw == 0 {
		return 0, false, nil
	}
	return skewOf(s.monotonic-before.monotonic, s.raw-before.raw), true, nil
}

// skewOf compares the time that two clocks have counted, in nanoseconds.
func skewOf(monotonic, raw int64) int64 {
	return int64(float64(monotonic-raw) / float64(raw) * (1 << 32))
}
