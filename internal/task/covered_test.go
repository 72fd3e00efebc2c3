// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLongerThanWhatStarts holds that what is asked for while the same is being started lasts as long as the longer of both.
func TestLongerThanWhatStarts(t *testing.T) {
	in(t, 2, nil, func(h *house) {
		h.starter.takes = time.Second
		short, long := asks(1, "on_cpu"), asks(1, "on_cpu")
		short.Duration = 5 * time.Second
		long.Duration, long.Extend = 10*time.Minute, true
		var asked sync.WaitGroup
		asked.Go(func() { h.Request(short) })
		h.after(time.Millisecond)
		require.True(t, one(t, h.Request(long)).Already)
		asked.Wait()
		h.after(10*time.Minute - time.Second)
		require.Equal(t, 1, h.starter.runs())
		require.Equal(t, 10*time.Minute, h.Tasks()[0].Runs[0].Duration)
		h.after(2 * time.Second)
		require.Zero(t, h.starter.runs())
	})
}
