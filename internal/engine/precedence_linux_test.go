// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBackgroundWorkYields checks that background work waits for the end of an iteration of the loop, and no longer than longestYield: the
// loop may wait for a result of that work.
func TestBackgroundWorkYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p precedence
		began := time.Now()
		p.yield()
		require.Zero(t, time.Since(began), "no iteration runs")

		var ended atomic.Bool
		inside, yielded := make(chan struct{}), make(chan bool)
		go p.first(func() {
			close(inside)
			time.Sleep(longestYield / 4)
			ended.Store(true)
		})
		<-inside
		go func() {
			p.yield()
			yielded <- ended.Load()
		}()
		require.True(t, <-yielded, "it waited until the iteration had ended")

		p.first(func() {
			began := time.Now()
			p.yield()
			require.Equal(t, longestYield, time.Since(began))
		})
		began = time.Now()
		p.yield()
		require.Zero(t, time.Since(began), "no iteration runs any more")
	})
}
