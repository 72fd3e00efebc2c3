// SPDX-License-Identifier: Apache-2.0

package observe

import "time"

// Answer is an HTTP request that a process has answered, or that has ended without a response.
type Answer struct {
	Subject SubjectKey
	// Path has no query, and is valid until the function that takes the answer returns; [l7.UnknownText] if it is unknown. Begins: only the
	// beginning of the path is known.
	Path   []byte
	Begins bool
	// Status is 0 if it is unknown. Unanswered: there was no response before the connection or the stream ended.
	Status     int
	Unanswered bool
	// Took is the duration, if Timed is set.
	Took  time.Duration
	Timed bool
	// Ended is when its last byte was sent or it was given up, of CLOCK_MONOTONIC, in ns. If the process does not close its end, it is when
	// that was detected: policies evaluate only the last seconds.
	Ended int64
}
