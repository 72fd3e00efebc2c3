// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCatchUp holds that one wait at a time is made for pending events, not longer than it takes to read them or than the bound, and seldom.
func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flushed := 0
		p := &pending{}
		p.flush = func() error {
			flushed++
			go func() {
				time.Sleep(10 * time.Millisecond)
				p.read()
			}()
			return nil
		}
		start := time.Now()
		other := make(chan bool)
		go func() {
			time.Sleep(time.Millisecond)
			other <- p.catchUp()
		}()
		require.True(t, p.catchUp())
		require.Equal(t, 10*time.Millisecond, time.Since(start))
		require.False(t, <-other, "one waits")
		require.False(t, p.catchUp(), "it did a moment ago")

		time.Sleep(catchUpPause)
		p.flush = func() error { return nil } // the reader is kept from reading
		start = time.Now()
		require.True(t, p.catchUp())
		require.Equal(t, catchUpWait, time.Since(start))

		time.Sleep(catchUpPause)
		p.flush = func() error { return errors.New("closed") }
		start = time.Now()
		require.True(t, p.catchUp())
		require.Zero(t, time.Since(start))
		p.read()
		require.Equal(t, 1, flushed)
	})
}
