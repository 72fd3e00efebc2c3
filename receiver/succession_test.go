// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// TestSuccession holds that windows go to the next receiver of the same name, once, and only if that starts soon.
func TestSuccession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := succession{left: map[component.ID]*legacy{}}
		one, other := component.MustNewIDWithName("ebpf", "one"), component.MustNewIDWithName("ebpf", "other")
		windows, later := &engine.Windows{}, &engine.Windows{}
		left := []task.Request{{Name: "slow"}}
		take := func(id component.ID) *engine.Windows {
			w, unfinished := s.take(id)
			require.Equal(t, w == windows, len(unfinished) == 1)
			return w
		}
		require.Nil(t, take(one))
		s.leave(one, nil, left)
		require.Nil(t, take(one))
		s.leave(one, windows, left)
		require.Nil(t, take(other))
		require.Same(t, windows, take(one))
		require.Nil(t, take(one))

		s.leave(one, windows, left)
		time.Sleep(succeedWithin / 2)
		s.leave(one, later, nil)
		time.Sleep(succeedWithin * 3 / 4) // the first would be forgotten by now
		require.Same(t, later, take(one))
		s.leave(one, windows, left)
		time.Sleep(succeedWithin + time.Second)
		require.Nil(t, take(one))
		require.Empty(t, s.left)
	})
}
