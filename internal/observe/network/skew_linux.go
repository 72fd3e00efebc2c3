// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// skew measures by how much CLOCK_MONOTONIC, by which calls are timed, is slewed
// against the clock of the hardware, by which the scheduler counts CPU time: of a call
// that waited the difference of both is what it worked.
type skew struct {
	monotonic, raw int64
}

// skewPeriod is long enough for the clocks, which are read one after the other, to be
// compared to less than a part in a million.
const skewPeriod = time.Second

// measure returns the skew since the last call, in parts of 2^32; false where that was
// not long enough ago.
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

// skewOf compares what two clocks have counted, in nanoseconds.
func skewOf(monotonic, raw int64) int64 {
	return int64(float64(monotonic-raw) / float64(raw) * (1 << 32))
}
