// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	p := NewPace()
	require.Equal(t, 250*time.Millisecond, p.Interval())
	for range 10 {
		p.Drained(0)
	}
	require.Equal(t, time.Second, p.Interval(), "no longer than that")
	p.Drained(0.4)
	require.Equal(t, time.Second, p.Interval(), "as full as is wanted")
	p.Drained(0.8)
	require.Equal(t, 500*time.Millisecond, p.Interval(), "at once")
	p.Drained(0.3)
	require.InDelta(t, 666*time.Millisecond, p.Interval(), 1e6)
	p.Drained(0.1)
	require.InDelta(t, 1000*time.Millisecond, p.Interval(), 1e6)
	for range 10 {
		p.Drained(1)
	}
	require.Equal(t, 50*time.Millisecond, p.Interval(), "no shorter than that")
}
