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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// TestHandover checks that windows go to the next receiver of the same name, once, and only if that starts soon.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := handover{left: map[component.ID]*handedOver{}}
		one, other := component.MustNewIDWithName("ebpf", "one"), component.MustNewIDWithName("ebpf", "other")
		windows, later := &engine.Windows{}, &engine.Windows{}
		left := []task.Request{{Name: "slow"}}
		logged := (*warn.Memory)(nil).Next()
		take := func(id component.ID) *engine.Windows {
			w, unfinished, warned := s.take(id)
			require.True(t, warned == nil || warned == logged)
			require.Equal(t, w == windows, len(unfinished) == 1)
			return w
		}
		require.Nil(t, take(one))
		s.leave(one, nil, left, logged)
		require.Nil(t, take(one))
		s.leave(one, windows, left, logged)
		require.Nil(t, take(other))
		require.Same(t, windows, take(one))
		require.Nil(t, take(one))

		s.leave(one, windows, left, logged)
		time.Sleep(handoverTimeout / 2)
		s.leave(one, later, nil, logged)
		time.Sleep(handoverTimeout * 3 / 4) // the first would be forgotten by now
		require.Same(t, later, take(one))
		s.leave(one, windows, left, logged)
		time.Sleep(handoverTimeout + time.Second)
		require.Nil(t, take(one))
		require.Empty(t, s.left)
	})
}
