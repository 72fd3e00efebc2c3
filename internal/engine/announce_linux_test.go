// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
)

func TestSamplingIsAnnounced(t *testing.T) {
	e := begin(t, configuration(9*time.Millisecond))
	field := kindField(oncpu.Name)
	require.Eventually(t, func() bool { return e.logs.FilterField(field).Len() == 1 }, time.Minute, 10*time.Millisecond)
	entry := e.logs.FilterField(field).All()[0]
	require.Regexp(t, `^on_cpu: sampling \d+ CPUs every 9ms, reports every 1s$`, entry.Message)
	fields := entry.ContextMap()
	require.Positive(t, fields["cpus"])
	delete(fields, "cpus")
	require.Equal(t, map[string]any{"kind": "on_cpu", "period": "9ms", "report_interval": "1s"}, fields)
}
