// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package oncpu

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

var _ observe.Starter = (*Options)(nil)

// Start implements [observe.Starter].
func (o *Options) Start(env observe.Environment) (observe.Started, error) {
	profiler, err := Start(Config{
		Options: *o, MapBytes: env.TableBytes, SampleBytes: env.SampleBytes, SysRoot: env.SysRoot, ProcRoot: env.ProcRoot,
	}, env.Loader, env.Maps, env.Host)
	if err != nil {
		return observe.Started{}, err
	}
	return observe.Started{
		Observation: profiler,
		Begin:       func(discover time.Duration) error { return o.begin(profiler, env, discover) },
		Describe: func() (string, []zap.Field) {
			return fmt.Sprintf("sampling %d CPUs every %s", profiler.Attached(), o.Period),
				[]zap.Field{zap.Int("cpus", profiler.Attached()), zap.Stringer("period", o.Period)}
		},
	}, nil
}

// begin begins to sample when the running processes have been discovered, for which it waits for discover at most.
func (o *Options) begin(profiler *Profiler, env observe.Environment, discover time.Duration) error {
	if env.Settle != nil && o.UserStacks && discover > 0 {
		if err := profiler.Discover(func() { env.Settle(discover) }); err != nil {
			env.Logger.Warn("The first samples of running processes may have no unwind tables", zap.Error(err))
		}
	}
	if err := profiler.Begin(); err != nil {
		return err
	}
	if why := profiler.Degraded(); why != nil {
		env.Degrade("on_cpu.event", why)
	}
	return nil
}
