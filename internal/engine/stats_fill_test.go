// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHighest(t *testing.T) {
	var h highest
	require.Zero(t, h.value())
	at := time.Unix(1000, 0)
	for _, step := range []struct {
		after time.Duration
		value float64
		want  float64
	}{
		{0, 0.1, 0.1},
		{time.Second, 0.7, 0.7},
		{time.Second, 0.2, 0.7},
		{fillWindow, 0.3, 0.7}, // the window before
		{fillWindow - time.Second, 0.1, 0.7},
		{time.Second, 0.2, 0.3},
		{fillWindow, 0, 0.2},
		{fillWindow, 0, 0},
	} {
		at = at.Add(step.after)
		h.add(at, step.value)
		require.Equal(t, step.want, h.value(), "%v", step)
	}
}
