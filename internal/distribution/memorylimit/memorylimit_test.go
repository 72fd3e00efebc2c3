// SPDX-License-Identifier: Apache-2.0

package memorylimit

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/cgroup"
)

func TestLimit(t *testing.T) {
	limited := cgroup.Limits{Memory: 100 << 20, MemoryFile: "/sys/fs/cgroup/memory.max"}
	require.EqualValues(t, 60<<20, limitOf(limited, "", math.MaxInt64))
	require.Zero(t, limitOf(cgroup.Limits{}, "", math.MaxInt64), "no limit")
	require.Zero(t, limitOf(limited, "off", math.MaxInt64), "the user's own choice")
	require.Zero(t, limitOf(limited, "", 1<<30), "another package has set one")
}

func TestReport(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	r := &reporter{logger: zap.New(core), set: 64 << 20, err: errors.New("broken"), limits: cgroup.Limits{MemoryFile: "/a"}}
	for range 2 {
		require.NoError(t, r.Convert(t.Context(), confmap.New()))
	}
	require.Equal(t, []map[string]any{{"error": "broken"}, {"bytes": int64(64 << 20), "file": "/a"}}, []map[string]any{logs.All()[0].ContextMap(), logs.All()[1].ContextMap()})
	require.Equal(t, 2, logs.Len(), "it is said once")
	require.NoError(t, NewFactory().Create(confmap.ConverterSettings{}).Convert(t.Context(), confmap.New()))
}
