// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// engineConfig returns what the engine does. Kinds whose results no pipeline
// takes do not run.
func engineConfig(c *Config, taken observe.Signals) engine.Config {
	config := engine.Config{
		RootPath:     c.RootPath,
		Include:      c.Targets.Include,
		Exclude:      c.Targets.Exclude,
		ScanInterval: c.Targets.ScanInterval,
		Symbols: engine.Symbols{
			DebugInfo: c.Symbols.DebugInfo, CacheDir: c.Symbols.CacheDir, CacheBytes: int64(c.Symbols.CacheMiB) << 20, Debuginfod: c.Symbols.Debuginfod,
		},
		Observe:               c.Observe.plans(taken),
		MetricsByInstance:     c.Metrics.Resource == resourceInstance,
		ExponentialHistograms: c.Metrics.Histograms == histogramsExponential,
		MemoryBytes:           uint64(c.Limits.MemoryMiB) << 20,
		CPUPercent:            c.Limits.CPUPercent,
	}
	for i := range c.Policies {
		config.Policies = append(config.Policies, c.Policies[i].engine(taken))
	}
	config.OnDemand = len(c.Tasks) > 0 || len(c.Policies) > 0
	return config
}
