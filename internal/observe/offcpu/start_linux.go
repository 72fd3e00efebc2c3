// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

var _ observe.Starter = (*Options)(nil)

// Start implements [observe.Starter].
func (o *Options) Start(env observe.Environment) (observe.Started, error) {
	observer, err := Start(Config{
		Options: *o, MapBytes: env.TableBytes, SampleBytes: env.SampleBytes, SysRoot: env.SysRoot, ProcRoot: env.ProcRoot,
	}, env.Loader, env.Maps, env.Host)
	if err != nil {
		return observe.Started{}, err
	}
	if why := observer.Degraded(); why != nil {
		env.Degrade("off_cpu.stacks", why)
	}
	return observe.Started{
		Observation: observer,
		Describe: func() (string, []zap.Field) {
			return fmt.Sprintf("timing waits of %s and more", o.MinBlock), []zap.Field{zap.Stringer("min_block", o.MinBlock)}
		},
	}, nil
}
