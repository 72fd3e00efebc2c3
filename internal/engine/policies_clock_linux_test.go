// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/usage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// threaded is a host all of whose processes have so many threads.
type threaded struct{ threads, reads int }

func (r *threaded) Add(model.ProcessID) error    { return nil }
func (r *threaded) Remove(model.ProcessID) error { return nil }
func (r *threaded) MapBytes() uint64             { return 0 }
func (r *threaded) Close() error                 { return nil }
func (r *threaded) Read() error                  { r.reads++; return nil }
func (r *threaded) Of(model.ProcessID) (usage.Usage, bool) {
	return usage.Usage{Threads: r.threads}, true
}

// TestClockIsSet holds that seconds are looked at one after the other, none twice and none left out, and that windows are kept, when
// the wall clock is set: a rule that wants ten of ten seconds holds when ten have gone by.
func TestClockIsSet(t *testing.T) {
	for name, steps := range map[string][]time.Duration{
		"never":              nil,
		"an hour on":         {time.Hour},
		"an hour back":       {-time.Hour},
		"there and back":     {time.Hour, -time.Hour},
		"again and again":    {-time.Hour, -time.Hour, 2 * time.Hour, 24 * time.Hour},
		"parts of a second":  {400 * time.Millisecond, -300 * time.Millisecond},
		"to before 1970":     {-40 * 365 * 24 * time.Hour},
		"slewed all along":   {time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond},
		"by whole and parts": {-time.Hour - 250*time.Millisecond, time.Hour + 250*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var set atomic.Int64 // ns
				began := time.Now()
				core, logs := observer.New(zap.InfoLevel)
				reader, seven := &threaded{threads: 5}, &model.Process{ID: model.ProcessID{PID: 7, StartTicks: 1}}
				p := &policies{
					reader: reader, work: func(work func()) { work() }, logger: zap.New(core), proc: "/proc", sys: "/sys", fired: make(chan struct{}, 1),
					warnings: warn.NewRarely(zap.New(core), "", nil),
					watch: policy.New([]policy.Policy{{
						Name: "all", Silence: time.Hour, When: []policy.Rule{{Monitor: monitor.ProcessThreadCount, Threshold: 5, Period: 10, Count: 10}},
					}}),
				}
				p.clock.read = func() clocks {
					up := 1000*time.Second + time.Since(began)
					return clocks{wall: time.Now().Add(time.Duration(set.Load())), boot: up, monotonic: up}
				}
				p.watch.Add(seven, []int{0})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go p.run(ctx)

				time.Sleep(1300 * time.Millisecond)
				stepped := 0
				for _, step := range steps {
					set.Add(int64(step))
					if step.Abs() >= time.Second {
						stepped++
					}
					time.Sleep(1700 * time.Millisecond)
				}
				for ; len(p.fired) == 0; time.Sleep(10 * time.Millisecond) {
					require.Less(t, time.Since(began), 20*time.Second, "ten seconds are over")
				}
				took := time.Since(began)
				cancel()
				synctest.Wait()
				require.InDelta(t, 10, took.Seconds(), 1.1)
				require.InDelta(t, 10, reader.reads, 1)
				require.Zero(t, p.watch.Stats().Missed)
				require.Equal(t, seven, p.triggers[0].Process)
				require.Equal(t, stepped, logs.FilterMessage("The wall clock was set; seconds of policies go on").Len())
				p.warnings.Close()
			})
		})
	}
}
