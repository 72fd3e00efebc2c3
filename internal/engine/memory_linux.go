// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
)

func (e *Engine) startMemory(options Options, l provision) (*running, error) {
	c := options.(*Memory)
	config := memory.Config{
		MapBytes: l.tableBytes, SampleBytes: l.sampleBytes,
		SysRoot: e.sysRoot(), ProcRoot: e.procRoot(), Plain: c.plain,
	}
	if c.Distance == 0 {
		faults, err := memory.StartFaults(config, l.loader, e.sharedMaps(), l.host)
		if err != nil {
			return nil, err
		}
		return &running{Observation: faults, starts: "counting page faults"}, nil
	}
	malloc, err := memory.StartMalloc(memory.MallocConfig{
		Config: config, Distance: c.Distance, Live: c.Live,
		Decide: e.deciding(l.host.scope), Open: e.symbols.Open, Charge: e.work.run, Logger: e.logger,
	}, l.loader, e.sharedMaps(), l.host)
	if err != nil {
		return nil, err
	}
	return &running{
		Observation: malloc,
		starts:      fmt.Sprintf("sampling allocations every %d bytes", c.Distance),
		fields:      []zap.Field{zap.Uint64("sample_bytes", c.Distance), zap.Bool("live", c.Live)},
	}, nil
}
