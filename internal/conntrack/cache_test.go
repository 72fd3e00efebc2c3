// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// flow makes a TCP flow of addresses such as "10.0.0.1:1".
func flow(local, remote string) Flow {
	return Flow{Protocol: TCP, Local: netip.MustParseAddrPort(local), Remote: netip.MustParseAddrPort(remote)}
}

func TestCacheForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCache(100, 10*time.Second)
	one := key{1, flow("10.0.0.1:1", "10.0.0.2:2")}
	c.put(one, one.flow.Reversed(), now)
	for _, step := range []struct {
		later time.Duration
		known bool
	}{{4 * time.Second, true}, {4 * time.Second, true}, {4 * time.Second, true}, {4 * time.Second, false}} {
		now = now.Add(step.later)
		c.turn(now)
		got, ok := c.get(one)
		require.Equal(t, step.known, ok, "after %s", now.Sub(time.Unix(1000, 0)))
		if ok {
			require.Equal(t, one.flow.Reversed(), got)
		}
	}
	c.put(one, one.flow, now)
	now = now.Add(time.Hour)
	c.turn(now)
	_, ok := c.get(one)
	require.False(t, ok, "nothing outlives a pause")
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache(100, time.Hour)
	now := time.Unix(1000, 0)
	for i := range 10000 {
		k := key{uint64(i), Flow{}}
		c.put(k, Flow{}, now)
		_, ok := c.get(k)
		require.True(t, ok, "the newest is known")
		require.LessOrEqual(t, len(c.young)+len(c.old), 100)
	}
}

func TestFlowUnmapped(t *testing.T) {
	require.Equal(t, flow("10.0.0.1:1", "10.0.0.2:2"), flow("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:2").unmapped())
	six := flow("[fd00::1]:1", "[fd00::2]:2")
	require.Equal(t, six, six.unmapped())
}

func TestFlowAskable(t *testing.T) {
	require.True(t, flow("10.0.0.1:1", "10.0.0.2:2").askable())
	require.True(t, flow("[fd00::1]:1", "[fd00::2]:2").askable())
	require.False(t, flow("10.0.0.1:1", "[fd00::2]:2").askable())
	require.False(t, flow("10.0.0.1:1", "0.0.0.0:0").askable(), "a socket that is not connected")
	require.False(t, Flow{}.askable())
	icmp := flow("10.0.0.1:1", "10.0.0.2:2")
	icmp.Protocol = 1
	require.False(t, icmp.askable())
}
