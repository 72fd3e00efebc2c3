// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStrangers holds that a change is known to who began to look before it, and to nobody else, and that it is believed of
// everybody where too many are noted.
func TestStrangers(t *testing.T) {
	var s strangers
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	require.False(t, s.since(1, at(0)))
	s.note(1, at(10))
	require.True(t, s.since(1, at(9)))
	require.True(t, s.since(1, at(10)))
	require.False(t, s.since(1, at(11)))
	require.False(t, s.since(2, at(9)))

	for pid := uint32(2); pid <= strangersMost; pid++ {
		s.note(pid, at(20))
	}
	s.note(strangersMost+1, at(20))
	require.Len(t, s.at, strangersMost, "the old one has made room")
	require.True(t, s.since(1, at(10)), "it may have been this one")
	require.False(t, s.since(1, at(11)))
	require.True(t, s.since(2, at(20)))
	s.note(strangersMost+2, at(21))
	require.Len(t, s.at, 1)
	require.True(t, s.since(1, at(20)))
	require.False(t, s.since(2, at(21)))
	require.True(t, s.since(strangersMost+2, at(21)))
}
