// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

package receiver

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOtherPlatform checks that the receiver says for good where it runs, and keeps no Collector from running.
func TestOtherPlatform(t *testing.T) {
	r := newProfiles(t, createDefaultConfig())
	host := &statusHost{}
	require.NoError(t, r.Start(t.Context(), host))
	awaitStart(r)
	require.Equal(t, []string{
		"StatusPermanentError: the receiver runs on linux/amd64 and linux/arm64, this is " + runtime.GOOS + "/" + runtime.GOARCH,
	}, host.seen())
	require.NoError(t, r.Shutdown(t.Context()))
}
