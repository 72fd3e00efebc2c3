// SPDX-License-Identifier: Apache-2.0

package warn

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestRarely(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	now := time.Unix(0, 0)
	r := NewRarely(zap.New(core), "It does not work", func() time.Time { return now })
	told := func(err string) (last string, held int64) {
		before := logs.Len()
		require.Equal(t, r.Warn(errors.New(err)), logs.Len() > before)
		entry := logs.All()[logs.Len()-1]
		require.Equal(t, "It does not work", entry.Message)
		fields := entry.ContextMap()
		return fields["error"].(string), fields["similar_warnings_held_back"].(int64)
	}
	last, held := told("one")
	require.Equal(t, []any{"one", int64(0), 1}, []any{last, held, logs.Len()}, "the first is told at once")
	for _, wait := range []time.Duration{0, 5 * time.Second, 5*time.Second - 1} {
		now = now.Add(wait)
		last, _ = told("two")
		require.Equal(t, []any{"one", 1}, []any{last, logs.Len()}, "held back")
	}
	now = now.Add(1)
	last, held = told("three")
	require.Equal(t, []any{"three", int64(3), 2}, []any{last, held, logs.Len()})
	now = now.Add(pause)
	last, held = told("four")
	require.Equal(t, []any{"four", int64(0), 3}, []any{last, held, logs.Len()})
}
