// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnbiased draws samples of known requests under many seeds: the mean of the estimates lies within three standard
// errors of what was requested, for sizes below, at and above the distance.
func TestUnbiased(t *testing.T) {
	const seeds = 4000
	for name, c := range map[string]struct {
		distance uint64
		sizes    []uint64
	}{
		"small":       {512 << 10, []uint64{1, 16, 24, 100, 1000}},
		"just below":  {512 << 10, []uint64{512<<10 - 1, 400_000, 300_001}},
		"large":       {512 << 10, []uint64{512 << 10, 512<<10 + 1, 3 << 20}},
		"a mix":       {4096, []uint64{8, 8, 8, 8, 4000, 100_000, 4096, 33}},
		"each":        {1, []uint64{1, 5, 1 << 40}},
		"far between": {MaxDistance << 5, []uint64{64 << 20, 1 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			const calls = 500 // of each size
			var objects, bytes, objects2, bytes2 float64
			trueObjects, trueBytes := 0.0, 0.0
			for seed := range uint64(seeds) {
				random := rand.New(rand.NewPCG(seed, 1))
				sumObjects, sumBytes := uint64(0), uint64(0)
				for _, size := range c.sizes {
					limit := threshold(size, c.distance)
					for range calls {
						if uint64(random.Uint32()) < limit {
							w := weight(limit)
							sumObjects += w
							sumBytes += weighted(size, w)
						}
					}
				}
				o := float64(whole(sumObjects, weightBits, random.Uint32()))
				b := float64(whole(sumBytes, bytesBits, random.Uint32()))
				objects, objects2 = objects+o, objects2+o*o
				bytes, bytes2 = bytes+b, bytes2+b*b
			}
			for _, size := range c.sizes {
				trueObjects += calls
				trueBytes += calls * float64(size)
			}
			near(t, "requests", trueObjects, objects, objects2, seeds)
			near(t, "bytes", trueBytes, bytes, bytes2, seeds)
		})
	}
}

// near holds that a mean is where it should be, by its own standard error; 2e-6 are allowed for binary places.
func near(t *testing.T, what string, want, sum, squares, n float64) {
	t.Helper()
	mean := sum / n
	deviation := math.Sqrt(max(squares/n-mean*mean, 0) / n)
	t.Logf("%s: %.1f, estimated %.1f ± %.1f", what, want, mean, deviation)
	require.InDelta(t, want, mean, 3*deviation+2e-6*want)
}

// TestWeightIsInverse checks that a weight is the inverse of the probability, exactly but for its last binary place.
func TestWeightIsInverse(t *testing.T) {
	for _, distance := range []uint64{1, 4096, 512 << 10, MaxDistance, MaxDistance << 5} {
		for _, size := range []uint64{0, 1, 2, 1000, distance / 3, distance - 1, distance, distance + 1, 1<<43 - 1} {
			limit := threshold(size, distance)
			require.Positive(t, limit)
			require.LessOrEqual(t, limit, uint64(certain))
			require.InDelta(t, certain*math.Exp2(weightBits)/float64(limit), float64(weight(limit)), 0.5+1e-6*float64(weight(limit)))
			if size >= distance {
				require.Equal(t, uint64(1<<weightBits), weight(limit))
				require.Equal(t, size<<bytesBits, weighted(size, weight(limit)), "nothing overflows")
			}
		}
	}
}

func TestWhole(t *testing.T) {
	require.Equal(t, uint64(3), whole(3<<8, 8, 0), "whole numbers stay")
	require.Equal(t, uint64(3), whole(3<<8|128, 8, 128))
	require.Equal(t, uint64(4), whole(3<<8|128, 8, 127))
	ups := uint64(0)
	for chance := range uint32(256) {
		ups += whole(77, 8, chance)
	}
	require.Equal(t, uint64(77), ups, "of 256 chances 77")
}
