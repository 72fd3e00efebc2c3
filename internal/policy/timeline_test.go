// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimeline(t *testing.T) {
	var line Timeline
	wall := time.Unix(1_800_000_000, 300e6)
	boot := 1000*time.Second + 100*time.Millisecond
	require.Zero(t, line.Follow(wall, boot), "the first time there is nothing to compare with")
	require.Equal(t, int64(1_800_000_000), line.Second(boot))
	require.Equal(t, boot+700*time.Millisecond, line.Ends(1_800_000_000), "with the wall clock's second")
	require.Equal(t, int64(1_800_000_000), line.Second(line.Ends(1_800_000_000)-1))
	require.Equal(t, int64(1_800_000_001), line.Second(line.Ends(1_800_000_000)))
	require.Equal(t, time.Unix(1_800_000_000, 0), line.Wall(1_800_000_000))

	for name, tc := range map[string]struct {
		set     time.Duration
		stepped int64
	}{
		"an hour back": {-time.Hour, -3600}, "a day on": {24 * time.Hour, 86400}, "slewed": {3 * time.Millisecond, 0},
		"a part of a second": {400 * time.Millisecond, 0}, "more than half": {1600 * time.Millisecond, 2},
	} {
		t.Run(name, func(t *testing.T) {
			line := line
			before := line.Second(boot + 10*time.Second)
			require.Equal(t, tc.stepped, line.Follow(wall.Add(10*time.Second+tc.set), boot+10*time.Second))
			after := line.Second(boot + 10*time.Second)
			require.InDelta(t, before, after, 1, "no second is skipped")
			ends := line.Ends(after) - boot - 10*time.Second
			require.Zero(t, (wall.Add(10*time.Second + tc.set + ends)).Nanosecond(), "seconds end with the wall clock's")
			require.Equal(t, wall.Add(10*time.Second+tc.set).Truncate(time.Second).Unix(), line.Wall(after).Unix())
		})
	}
}

// TestTimelineGoesOn holds that whatever becomes of the wall clock, seconds go on as time does.
func TestTimelineGoesOn(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	var line Timeline
	wall, boot := time.Unix(1_800_000_000, 0), 5*time.Second
	line.Follow(wall, boot)
	first, begun := line.Second(boot), boot
	for range 10_000 {
		took := time.Duration(draw.Int64N(int64(3 * time.Second)))
		boot, wall = boot+took, wall.Add(took)
		if draw.IntN(4) == 0 {
			wall = wall.Add(time.Duration(draw.Int64N(int64(2000*time.Second))) - 1000*time.Second)
		}
		line.Follow(wall, boot)
		second := line.Second(boot)
		require.Equal(t, wall.Unix(), line.Wall(second).Unix())
		// Each step shifts seconds by half of one at most, and those even out.
		require.InDelta(t, (boot - begun).Seconds(), float64(second-first), 200)
	}
}

func TestTimelineBeforeZero(t *testing.T) {
	var line Timeline
	line.Follow(time.Unix(0, 0), 10*time.Second) // a host without a clock
	require.Equal(t, int64(-1), line.Second(9*time.Second+500*time.Millisecond))
	require.Equal(t, int64(0), line.Second(10*time.Second))
}
