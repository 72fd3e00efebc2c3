// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/collector"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/reference"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

const (
	// webWarmUp is how long wrk runs before a round is measured. It is ended after it, and ends by itself webTail after
	// both: drains are waited for before and after.
	webWarmUp = time.Second
	webTail   = time.Minute
	// unlimited is limits::cpu_percent of the rounds: sampling every 2 ms of two full CPUs must not be reduced.
	unlimited = 100
)

// webPeriods are what the states are measured at: the second gives more samples in the same time.
var webPeriods = []time.Duration{period, 2 * time.Millisecond}

// web measures the kernel's side under nginx and wrk, all states in turns.
func (b *bench) web(ctx context.Context) (err error) {
	server, err := workload.StartWeb(ctx, b.dir, b.nice)
	if errors.Is(err, workload.ErrAbsent) {
		b.note("the part web was left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	for _, every := range webPeriods {
		for _, name := range []string{report.Ours, report.Reference} {
			for _, kernelStacks := range []bool{true, false} {
				b.report.Web = append(b.report.Web, report.Web{Program: name, Period: every, KernelStacks: kernelStacks})
			}
		}
		b.report.Web = append(b.report.Web, report.Web{Program: report.Floor, Period: every, KernelStacks: true})
	}
	for round := range b.rounds {
		for i := range b.report.Web {
			state := &b.report.Web[i]
			progress("web: round %d of %d: %s every %s, kernel stacks: %v", round+1, b.rounds, state.Program, state.Period, state.KernelStacks)
			measured, err := b.webRound(ctx, server, state)
			if err != nil {
				return err
			}
			state.Rounds = append(state.Rounds, measured)
		}
	}
	return nil
}

// webRound measures one state once. wrk starts when what samples is ready.
func (b *bench) webRound(ctx context.Context, server *workload.Web, state *report.Web) (report.WebRound, error) {
	if state.Program != report.Ours {
		return b.referenceRound(ctx, server, state)
	}
	var round report.WebRound
	config := collector.Config{Receiver: &collector.Receiver{
		Period: state.Period, KernelStacks: state.KernelStacks, CPUPercent: unlimited,
	}}
	err := b.with(ctx, config, func(subject *collector.Collector) error {
		return b.underWeb(ctx, server, &round, func(watch webWatch) error { return b.oursRound(ctx, subject, state, watch, &round) })
	})
	return round, err
}

// underWeb runs wrk around a measurement.
func (b *bench) underWeb(ctx context.Context, server *workload.Web, round *report.WebRound, measure func(webWatch) error) error {
	client, err := server.Load(ctx, webWarmUp+b.webTime+webTail)
	if err != nil {
		return err
	}
	if err = sleep(ctx, webWarmUp); err == nil {
		err = measure(webWatch{server: server.PID(), client: client.PID()})
	}
	if err != nil {
		return errors.Join(err, client.Stop())
	}
	round.RequestRate, err = client.Rate()
	return err
}

func (b *bench) oursRound(ctx context.Context, subject *collector.Collector, state *report.Web, watch webWatch, round *report.WebRound) error {
	// The first drain loads the kernel's symbols, and counts its samples before that.
	if _, err := atDrain(ctx, subject); err != nil {
		return err
	}
	before, err := atDrain(ctx, subject)
	if err != nil {
		return err
	}
	cost := func() (kernel.ProgramCost, error) {
		runs, spent, err := collector.ProgramRuns(subject.Watched().Program)
		return kernel.ProgramCost{Runs: runs, Time: spent}, err
	}
	if err := b.runs(ctx, state.Period, cost, watch, round); err != nil {
		return err
	}
	after, err := atDrain(ctx, subject)
	if err != nil {
		return err
	}
	round.Engine = each(after.engine()-before.engine(), uint64(after.events()-before.events()))
	lost, _ := losses(after.metrics)
	for _, n := range lost {
		round.Lost += n
	}
	return nil
}

func (b *bench) referenceRound(ctx context.Context, server *workload.Web, state *report.Web) (round report.WebRound, err error) {
	profiler, err := reference.Start(state.Period, referenceWork(state), b.report.Host.CPUs)
	if err != nil {
		return round, err
	}
	defer func() { err = errors.Join(err, profiler.Close()) }()
	err = b.underWeb(ctx, server, &round, func(watch webWatch) error {
		return b.runs(ctx, state.Period, profiler.Cost, watch, &round)
	})
	return round, err
}

func referenceWork(state *report.Web) reference.Work {
	switch {
	case state.Program == report.Floor:
		return reference.Unwinding
	case state.KernelStacks:
		return reference.BothStacks
	}
	return reference.UserStack
}

// runs measures the sampling program itself.
func (b *bench) runs(ctx context.Context, every time.Duration, cost func() (kernel.ProgramCost, error), watch webWatch, round *report.WebRound) error {
	before, err := cost()
	if err != nil {
		return err
	}
	began := time.Now()
	if round.Share, err = watch.during(func() error { return sleep(ctx, b.webTime) }); err != nil {
		return err
	}
	after, err := cost()
	if err != nil {
		return err
	}
	round.Runs = after.Runs - before.Runs
	round.PerRun = each(after.Time-before.Time, round.Runs)
	return plausible(round.Runs, time.Since(began), every, b.report.Host.CPUs)
}

// plausible refuses more runs than the period allows: then something else was measured.
func plausible(runs uint64, elapsed, every time.Duration, cpus int) error {
	most := uint64(cpus) * uint64(elapsed/every+1)
	if runs > most+most/20 {
		return fmt.Errorf("the sampling program ran %d times in %s; every %s on %d CPUs gives at most %d", runs, elapsed, every, cpus, most)
	}
	return nil
}

func each(d time.Duration, n uint64) time.Duration {
	if n == 0 {
		return 0
	}
	return d / time.Duration(n)
}

// webWatch sees how much of the host's CPU time nginx and wrk have.
type webWatch struct{ server, client int }

func (w webWatch) during(wait func() error) (float64, error) {
	before, err := w.used()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := wait(); err != nil {
		return 0, err
	}
	after, err := w.used()
	if err != nil {
		return 0, err
	}
	host, err := proc.HostIdle()
	return float64(after-before) / float64(time.Since(began)) / float64(host.CPUs), err
}

func (w webWatch) used() (time.Duration, error) {
	server, err := proc.CPUTime(w.server)
	if err != nil {
		return 0, err
	}
	client, err := proc.CPUTime(w.client)
	return server + client, err
}
