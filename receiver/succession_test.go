// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// TestSuccession holds that windows go to the next receiver of the same name, once, and only if that starts soon.
func TestSuccession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := succession{left: map[component.ID]*legacy{}}
		one, other := component.MustNewIDWithName("ebpf", "one"), component.MustNewIDWithName("ebpf", "other")
		windows, later := &engine.Windows{}, &engine.Windows{}
		require.Nil(t, s.take(one))
		s.leave(one, nil)
		require.Nil(t, s.take(one))
		s.leave(one, windows)
		require.Nil(t, s.take(other))
		require.Same(t, windows, s.take(one))
		require.Nil(t, s.take(one))

		s.leave(one, windows)
		time.Sleep(succeedWithin / 2)
		s.leave(one, later)
		time.Sleep(succeedWithin * 3 / 4) // the first would be forgotten by now
		require.Same(t, later, s.take(one))
		s.leave(one, windows)
		time.Sleep(succeedWithin + time.Second)
		require.Nil(t, s.take(one))
		require.Empty(t, s.left)
	})
}
