// SPDX-License-Identifier: Apache-2.0

package receiver

import "github.com/otelcol-ebpf/ebpfreceiver/internal/engine"

// engineConfig says what the engine must do. Kinds whose results no pipeline
// takes do not run.
func engineConfig(c *Config, taken signals) engine.Config {
	config := engine.Config{
		RootPath:     c.RootPath,
		Include:      selectors(c.Targets.Include),
		Exclude:      selectors(c.Targets.Exclude),
		ScanInterval: c.Targets.ScanInterval,
		Symbols: engine.Symbols{
			DebugInfo: c.Symbols.DebugInfo, CacheDir: c.Symbols.CacheDir, CacheBytes: int64(c.Symbols.CacheMiB) << 20, Debuginfod: c.Symbols.Debuginfod,
		},
		MemoryBytes: uint64(c.Limits.MemoryMiB) << 20,
		CPUPercent:  c.Limits.CPUPercent,
	}
	if onCPU := c.Observe.OnCPU.Get(); onCPU != nil && taken.profiles {
		config.OnCPU = onCPU.engine()
	}
	if offCPU := c.Observe.OffCPU.Get(); offCPU != nil && taken.profiles {
		config.OffCPU = offCPU.engine()
	}
	if memory := c.Observe.Memory.Get(); memory != nil && taken.profiles {
		config.Memory = memory.engine()
	}
	if network := c.Observe.Network.Get(); network != nil && network.heard(taken) {
		config.Network = network.engine(taken)
	}
	for i := range c.Policies {
		config.Policies = append(config.Policies, c.Policies[i].engine(taken))
	}
	config.OnDemand = len(c.Tasks) > 0 || len(c.Policies) > 0
	return config
}
