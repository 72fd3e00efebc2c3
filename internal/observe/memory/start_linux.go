// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package memory

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

var _ observe.Starter = (*Options)(nil)

// Start implements [observe.Starter].
func (o *Options) Start(env observe.Environment) (observe.Started, error) {
	config := Config{MapBytes: env.TableBytes, SampleBytes: env.SampleBytes, SysRoot: env.SysRoot, ProcRoot: env.ProcRoot, Plain: o.Plain}
	if o.Source != SourceMalloc {
		faults, err := StartFaults(config, env.Loader, env.Maps, env.Host)
		if err != nil {
			return observe.Started{}, err
		}
		return observe.Started{Observation: faults, Describe: func() (string, []zap.Field) { return "counting page faults", nil }}, nil
	}
	distance := uint64(o.SampleBytes)
	malloc, err := StartMalloc(MallocConfig{
		Config: config, Distance: distance, Live: o.Live, Decide: env.Decide, Open: env.Open, Charge: env.ChargeBackground, Logger: env.Logger,
	}, env.Loader, env.Maps, env.Host)
	if err != nil {
		return observe.Started{}, err
	}
	return observe.Started{
		Observation: malloc,
		Describe: func() (string, []zap.Field) {
			return fmt.Sprintf("sampling allocations every %d bytes", distance), []zap.Field{zap.Uint64("sample_bytes", distance), zap.Bool("live", o.Live)}
		},
	}, nil
}
