// SPDX-License-Identifier: Apache-2.0

package thread

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRunApart checks that no function gets the main thread, and that errors are returned. Of so many goroutines at least one would.
func TestRunApart(t *testing.T) {
	failed := errors.New("failed")
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for range 20 {
				var thread int
				if err := RunApart(func() error { thread = unix.Gettid(); return failed }); !errors.Is(err, failed) || thread == 0 || thread == unix.Getpid() {
					t.Errorf("thread %d, error %v", thread, err)
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, RunApart(func() error { return nil }))
}
