// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

const (
	// triggerRounds is how many tasks of each kind are asked for, triggerRun how long one runs whose
	// first sample is waited for: on a host that has much else to do the program may have to wait, too.
	triggerRounds = 7
	triggerRun    = time.Second
	// triggerLoad bounds how long the program is busy.
	triggerLoad = 10 * time.Minute
)

// triggered measures how long it takes from the request of a task to its first sample. The
// engine is in this process, as it is in the Collector.
func (b *bench) triggered(ctx context.Context) (err error) {
	onCPU := &oncpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, Period: 9 * time.Millisecond}
	if err := b.fireByRequests(ctx, onCPU); err != nil {
		return err
	}
	progress("trigger: %d tasks of each kind, one after the other", triggerRounds)
	load, err := workload.NewBusy(ctx, b.dir, b.module, b.nice)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	if why, absent := load.Absent["c"]; absent {
		b.note("the part trigger was left out: %s", why)
		return nil
	}
	busy, err := load.StartOne(ctx, "c", triggerLoad)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, busy.Stop()) }()
	slowly := *onCPU
	slowly.Period = 50 * time.Millisecond
	network := &network.Plan{Common: observe.Common{ReportInterval: time.Second}}
	for _, one := range []struct {
		kind    string
		before  *oncpu.Options
		options observe.Plan
	}{
		{"on_cpu", nil, onCPU},
		{"on_cpu", &slowly, onCPU},
		{"off_cpu", nil, &offcpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, MinBlock: time.Millisecond}},
		{"memory", nil, &memory.Options{Common: observe.Common{ReportInterval: time.Second}}},
		{"network", nil, network},
	} {
		measured, err := trigger(ctx, uint32(busy.PID()), one.kind, one.before, one.options)
		if err != nil {
			return fmt.Errorf("%s: %w", one.kind, err)
		}
		b.report.Triggers = append(b.report.Triggers, measured)
	}
	progress("trigger: %d policies of process_cpu, one after the other", triggerRounds)
	for range triggerRounds {
		took, err := fire(ctx, uint32(busy.PID()), policy.Rule{Monitor: monitor.ProcessCPU, Threshold: fireThreshold}, onCPU)
		if err != nil {
			return fmt.Errorf("a policy: %w", err)
		}
		b.report.Fired = append(b.report.Fired, took)
	}
	return nil
}

// fireByRequests measures how soon a policy about requests shows something: of nginx, which is asked at full speed.
func (b *bench) fireByRequests(ctx context.Context, options observe.Plan) (err error) {
	progress("trigger: %d policies of http_avg_response_time, one after the other", triggerRounds)
	server, err := workload.StartWeb(ctx, b.dir, b.nice)
	if errors.Is(err, workload.ErrAbsent) {
		b.note("of the part trigger the policy about requests was left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	client, err := server.Load(ctx, triggerLoad)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Stop()) }()
	for range triggerRounds {
		took, err := fire(ctx, uint32(server.PID()), policy.Rule{Monitor: monitor.HTTPAvgResponseTime}, options)
		if err != nil {
			return fmt.Errorf("a policy about requests: %w", err)
		}
		b.report.FiredByRequests = append(b.report.FiredByRequests, took)
	}
	return nil
}

const (
	// firePeriod and fireCount are of the rule that fires, fireThreshold in per cent of the host's CPUs: two busy
	// threads have more of it even where there is three times as much to do.
	firePeriod, fireCount = 5, 2
	fireThreshold         = 1
	// firePatience is how long a policy may take to fire: the first scan, and its seconds.
	firePatience = 20 * time.Second
)

// fire returns the time from the end of the second that fulfils a rule to the first sample of the profile that its policy starts, of a
// process that was not observed before.
func fire(ctx context.Context, pid uint32, rule policy.Rule, options observe.Plan) (took time.Duration, err error) {
	rule.Period, rule.Count = firePeriod, fireCount
	var manager *task.Manager
	made, asked := make(chan struct{}), make(chan moments, 1)
	e, err := engine.Start(ctx, engine.Config{
		RootPath: "/", Include: []process.Selector{{PID: pid}}, ScanInterval: 10 * time.Second, OnDemand: true,
		MemoryBytes: 256 << 20, CPUPercent: 100,
		Policies: []engine.Policy{{
			Policy: policy.Policy{Name: "bench", Silence: time.Hour, When: []policy.Rule{rule}},
			Runs:   []task.Run{{Kind: "on_cpu", Options: options}}, Duration: time.Minute,
		}},
	}, engine.Hooks{Level: func(engine.LevelChange) {}, Ask: func(r task.Request) []task.Outcome {
		<-made
		at := now()
		outcomes := manager.Request(r)
		at.err = outcomes[0].Err
		select {
		case asked <- at:
		default: // it could not start, and is asked for again
		}
		return outcomes
	}}, zap.NewNop())
	if err != nil {
		return 0, err
	}
	starter := &noting{Engine: e}
	manager = task.New(task.Config{Starter: starter, Running: 1, Logger: zap.NewNop()})
	close(made)
	var at moments
	select {
	case at = <-asked:
		err = errors.Join(at.err, sleep(ctx, triggerRun))
	case <-time.After(firePatience):
		err = fmt.Errorf("the rule has not held within %s", firePatience)
	case <-ctx.Done():
		err = ctx.Err()
	}
	missed := e.Stats().Lost[engine.LossKey{Probe: "policies", Reason: "seconds_missed"}]
	manager.Close() // reads what the kernel has counted
	if err = errors.Join(err, e.Shutdown()); err != nil {
		return 0, err
	}
	if missed > 0 {
		return 0, fmt.Errorf("the policies did not run at the ends of %d seconds: which of them fulfilled the rule is not known", missed)
	}
	sampling, ok := starter.last.(interface{ FirstSample() uint64 })
	if !ok || sampling.FirstSample() == 0 {
		return 0, fmt.Errorf("no sample within %s", triggerRun)
	}
	// No second was missed, so that the rule was evaluated in the second after the one that fulfilled it: that one has ended when the wall
	// clock's began in which the task was requested.
	return time.Duration(sampling.FirstSample()-at.monotonic) + at.wall.Sub(at.wall.Truncate(time.Second)), nil
}

// moments is one moment by two clocks.
type moments struct {
	wall      time.Time
	monotonic uint64
	err       error // what came of what was asked for then
}

func now() moments { return moments{wall: time.Now(), monotonic: monotonic()} }

// noting is an engine whose last observation is remembered.
type noting struct {
	*engine.Engine
	last task.Observation
}

func (n *noting) Start(spec task.Spec) (task.Observation, error) {
	o, err := n.Engine.Start(spec)
	n.last = o
	return o, err
}

// trigger asks for tasks of one kind. Each has an engine of its own: of a program that was
// profiled before more is known.
func trigger(ctx context.Context, pid uint32, kind string, before *oncpu.Options, options observe.Plan) (report.Trigger, error) {
	measured := report.Trigger{Kind: kind, Before: report.TriggerUnknown}
	if before != nil {
		measured.Before = report.TriggerKnown
	}
	for range triggerRounds {
		if err := triggerOnce(ctx, pid, kind, before, options, &measured); err != nil {
			return measured, err
		}
	}
	return measured, nil
}

func triggerOnce(ctx context.Context, pid uint32, kind string, before *oncpu.Options, options observe.Plan, measured *report.Trigger) (err error) {
	e, err := engine.Start(ctx, engine.Config{
		RootPath:     "/",
		Include:      []process.Selector{{PID: pid}},
		ScanInterval: 10 * time.Second,
		Observe:      []observe.Plan{before},
		OnDemand:     true,
		MemoryBytes:  256 << 20,
		CPUPercent:   100,
	}, engine.Hooks{Level: func(engine.LevelChange) {}}, zap.NewNop())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Shutdown()) }()
	if err := sleep(ctx, time.Second); err != nil { // the first scan
		return err
	}
	starter := &noting{Engine: e}
	manager := task.New(task.Config{Starter: starter, Running: 1, Logger: zap.NewNop()})
	id, err := e.Identify(pid)
	if err != nil {
		manager.Close()
		return err
	}
	asked, began := monotonic(), time.Now()
	outcome := manager.Request(task.Request{
		By: "bench", Duration: time.Minute, Processes: []*model.Process{id}, Runs: []task.Run{{Kind: kind, Options: options}},
	})[0]
	measured.Started = append(measured.Started, time.Since(began))
	if outcome.Err == nil && kind == "on_cpu" {
		err = sleep(ctx, triggerRun)
	}
	manager.Close() // reads what the kernel has counted
	if err = errors.Join(err, outcome.Err); err != nil {
		return err
	}
	sampling, ok := starter.last.(interface{ FirstSample() uint64 })
	if kind != "on_cpu" || !ok {
		return nil // others begin when something happens
	}
	first := sampling.FirstSample()
	if first == 0 {
		return fmt.Errorf("no sample within %s", triggerRun)
	}
	measured.FirstSample = append(measured.FirstSample, time.Duration(first-asked))
	return nil
}

// monotonic is CLOCK_MONOTONIC, which programs take the time of samples from.
func monotonic() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // Linux has this clock
	}
	return uint64(now.Nano())
}
