// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/cgroup"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// TestFit holds what is left for the engine within a control group, and what is said of it.
func TestFit(t *testing.T) {
	const file = "/sys/fs/cgroup/memory.max"
	id := component.MustNewIDWithName("ebpf", "host")
	for name, c := range map[string]struct {
		memoryMiB, limitMiB, anonymousMiB uint64
		cpus                              float64
		wantMiB                           uint64
		wantCPU                           float64
		says                              string
		refuses                           string
	}{
		"no limits":                {256, 0, 20, 0, 256, 2, "", ""},
		"it fits":                  {256, 480, 20, 0, 256, 2, "", ""},
		"one MiB less":             {256, 479, 20, 0, 255, 2, "receivers::ebpf/host::limits::memory_mib is reduced to what the limit of the Collector's control group leaves; raise that, or lower memory_mib", ""},
		"a larger Collector":       {256, 480, 232, 0, 144, 2, "receivers::ebpf/host::limits::memory_mib is reduced to what the limit of the Collector's control group leaves; raise that, or lower memory_mib", ""},
		"the least":                {32, 144, 20, 0, 32, 2, "", ""},
		"less than the least":      {32, 143, 20, 0, 32, 2, "", "receivers::ebpf/host::limits::memory_mib: 32 MiB do not fit into the control group of the Collector: " + file + " is 143 MiB, and the least that is needed is 144 MiB (96 MiB for the Collector"},
		"less, with more wanted":   {256, 64, 20, 0, 256, 2, "", "256 MiB do not fit"},
		"a quota of CPU time":      {256, 0, 20, 0.5, 256, 2, "", ""},
		"a quota below the limit":  {256, 0, 20, 0.01, 256, 1, "receivers::ebpf/host::limits::cpu_percent is reduced to the limit of the Collector's control group; raise that, or lower cpu_percent", ""},
		"a quota at the limit":     {256, 0, 20, 0.02, 256, 2, "", ""},
		"a Collector beyond limit": {32, 200, 400, 0, 32, 2, "", "the least that is needed is 480 MiB (432 MiB for the Collector"},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			config := engine.Config{MemoryBytes: c.memoryMiB << 20, CPUPercent: 2}
			err := fit(&config, id, cgroup.Limits{Memory: c.limitMiB << 20, MemoryFile: file, CPUs: c.cpus}, c.anonymousMiB<<20, zap.New(core))
			if c.refuses != "" {
				require.ErrorContains(t, err, c.refuses)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.wantMiB<<20, config.MemoryBytes)
			require.InDelta(t, c.wantCPU, config.CPUPercent, 1e-9)
			said := ""
			for _, entry := range logs.All() {
				said += entry.Message
			}
			require.Equal(t, c.says, said)
		})
	}
	require.Positive(t, anonymous())
}
