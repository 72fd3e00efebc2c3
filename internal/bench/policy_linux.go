// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// watched are the numbers of processes that are watched, and of those that start and exit in a second in addition; policyTime is for how
// long each is measured and policySettle how long the processes have to be read before.
var watched = []struct{ processes, forks int }{{1000, 0}, {10000, 0}, {1000, 500}}

const (
	policyTime   = 12 * time.Second
	policySettle = 8 * time.Second
)

// policies measures what it costs to watch processes.
func (b *bench) policies(ctx context.Context) error {
	for _, n := range watched {
		progress("policy: %d processes that sleep and %d a second that come and go, with policies and without them, %s each", n.processes, n.forks, policyTime)
		err := b.watch(ctx, n.processes, n.forks)
		if errors.Is(err, workload.ErrAbsent) {
			b.note("the part policy was left out: %v", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("watching %d processes: %w", n.processes, err)
		}
	}
	return nil
}

func (b *bench) watch(ctx context.Context, processes, forks int) (err error) {
	load, err := workload.StartSleepers(ctx, b.dir, b.nice, processes, forks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Stop()) }()
	found := report.Watched{Processes: processes, Forks: forks, Rules: len(watchingRules())}
	if found.Without, err = measureWatch(ctx, nil); err != nil {
		return err
	}
	if found.With, err = measureWatch(ctx, watchingRules()); err != nil {
		return err
	}
	b.report.Watched = append(b.report.Watched, found)
	return nil
}

// watchingRules never hold.
func watchingRules() []policy.Rule {
	return []policy.Rule{
		{Monitor: monitor.ProcessCPU, Threshold: 100, Period: 60, Count: 60},
		{Monitor: monitor.ProcessThreadCount, Threshold: 1e6, Period: 60, Count: 10},
		{Monitor: monitor.SystemLoad, Threshold: 1e6, Period: 60, Count: 10},
	}
}

// measureWatch runs an engine that observes nothing, and watches by rules.
func measureWatch(ctx context.Context, rules []policy.Rule) (w report.Watch, err error) {
	config := engine.Config{
		RootPath: "/", Include: []process.Selector{{Comm: "^" + workload.SleepersComm + "$"}},
		ScanInterval: time.Hour, // it costs the same with policies and without them
		OnDemand:     true, MemoryBytes: 256 << 20, CPUPercent: 100,
	}
	if len(rules) > 0 {
		config.Policies = []engine.Policy{{Policy: policy.Policy{Name: "bench", When: rules, Silence: time.Hour}, Duration: time.Minute}}
	}
	before, err := memoryNow()
	if err != nil {
		return w, err
	}
	e, err := engine.Start(ctx, config, engine.Hooks{
		Level: func(engine.LevelChange) {}, Ask: func(task.Request) []task.Outcome { return nil },
	}, zap.NewNop())
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, e.Shutdown()) }()
	if err := sleep(ctx, policySettle); err != nil {
		return w, err
	}
	stats := e.Stats()
	w.InScope = stats.InScope
	began := time.Now()
	if err := sleep(ctx, policyTime); err != nil {
		return w, err
	}
	w.CPU, w.Elapsed = e.Stats().EngineTime-stats.EngineTime, time.Since(began)
	after, err := memoryNow()
	w.Memory = beyond(after.anon, before.anon) + beyond(after.maps, before.maps)
	return w, err
}
