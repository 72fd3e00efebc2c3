// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestUnfollowed holds that a change is reported to readers that began before it, and to no others, and that it is assumed of
// all processes where too many are noted.
func TestUnfollowed(t *testing.T) {
	var s unfollowed
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	require.False(t, s.since(1, at(0)))
	s.note(1, at(10))
	require.True(t, s.since(1, at(9)))
	require.True(t, s.since(1, at(10)))
	require.False(t, s.since(1, at(11)))
	require.False(t, s.since(2, at(9)))

	for pid := uint32(2); pid <= maxUnfollowed; pid++ {
		s.note(pid, at(20))
	}
	s.note(maxUnfollowed+1, at(20))
	require.Len(t, s.at, maxUnfollowed, "the old one has made room")
	require.True(t, s.since(1, at(10)), "it may have been this one")
	require.False(t, s.since(1, at(11)))
	require.True(t, s.since(2, at(20)))
	s.note(maxUnfollowed+2, at(21))
	require.Len(t, s.at, 1)
	require.True(t, s.since(1, at(20)))
	require.False(t, s.since(2, at(21)))
	require.True(t, s.since(maxUnfollowed+2, at(21)))
}
