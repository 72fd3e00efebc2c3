// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/collector"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/procfs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/prom"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

const (
	// warmUp is how long the load runs before the Collector starts: Java compiles.
	warmUp = 4 * time.Second
	// startUp ends after the first report, which comes after 5 s, give or take a drain.
	startUp = 7 * time.Second
	// moreStarts is how often the Collector is started again for the time to its first sample alone.
	moreStarts = 4
	// atEnd is how much longer the load would run than is measured, if it were not ended.
	atEnd = time.Minute
)

// busy measures the Collector under the fixed load, then the bare one.
func (b *bench) busy(ctx context.Context) (err error) {
	load, err := b.load(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	progress("busy: the Collector with on_cpu every %s for %s", period, startUp+b.seconds)
	result := &report.Busy{Period: period}
	err = b.under(ctx, load, &collector.Receiver{Period: period, KernelStacks: true}, func(subject *collector.Collector) error {
		return b.measureBusy(ctx, subject, result)
	})
	if err != nil {
		return err
	}
	b.report.Busy = result
	progress("busy: %d more starts", moreStarts)
	if err := b.starts(ctx, load, result); err != nil {
		return err
	}
	progress("busy: the Collector without the receiver for as long")
	return b.under(ctx, load, nil, func(subject *collector.Collector) error {
		return b.measureBare(ctx, subject, result)
	})
}

// starts measures the time to the first sample again, each time with a new Collector under the same load: as it is measured
// otherwise, and in turns as the receiver is by default.
func (b *bench) starts(ctx context.Context, load *workload.Busy, to *report.Busy) error {
	return b.loaded(ctx, load, func() error {
		for range moreStarts {
			for _, way := range []struct {
				receiver collector.Receiver
				to       *[]time.Duration
			}{
				{collector.Receiver{Period: period, KernelStacks: true}, &to.FirstSamples},
				{collector.Receiver{Unconfigured: true}, &to.FirstSamplesByDefault},
			} {
				err := b.with(ctx, collector.Config{Receiver: &way.receiver}, func(subject *collector.Collector) error {
					return firstSample(ctx, subject, way.to)
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func firstSample(ctx context.Context, subject *collector.Collector, to *[]time.Duration) error {
	if _, err := subject.AtDrain(ctx, noLook); err != nil {
		return err
	}
	watched := subject.Watched()
	*to = append(*to, watched.FirstSample)
	return watched.Errors
}

// under runs the load and, within it, a Collector.
func (b *bench) under(ctx context.Context, load *workload.Busy, receiver *collector.Receiver, measure func(*collector.Collector) error) error {
	return b.loaded(ctx, load, func() error {
		return b.with(ctx, collector.Config{Receiver: receiver}, measure)
	})
}

// loaded runs the load around something, which may take as long as the longest measurement.
func (b *bench) loaded(ctx context.Context, load *workload.Busy, run func() error) error {
	started, err := load.Start(ctx, warmUp+startUp+b.seconds+atEnd)
	if err != nil {
		return err
	}
	if err = sleep(ctx, warmUp); err == nil {
		err = run()
	}
	return errors.Join(err, workload.StopAll(started))
}

// with runs a Collector.
func (b *bench) with(ctx context.Context, config collector.Config, measure func(*collector.Collector) error) error {
	subject, err := collector.Start(ctx, b.binary, b.dir, config, b.nice)
	if err != nil {
		return err
	}
	return errors.Join(measure(subject), subject.Stop())
}

// moment is what is known of host, Collector and receiver at one time.
type moment struct {
	at      time.Time
	host    procfs.Idle
	used    time.Duration
	metrics prom.Metrics
}

func (m moment) events() float64 { return m.metrics.Sum("otelcol_ebpf_events", "probe", "on_cpu") }

func (m moment) engine() time.Duration {
	return seconds(m.metrics.Sum("otelcol_ebpf_engine_cpu_time", "", ""))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// atDrain samples everything just after a drain, so that what was counted and what the host did are of the same time.
func atDrain(ctx context.Context, subject *collector.Collector) (moment, error) {
	var m moment
	var err error
	m.metrics, err = subject.AtDrain(ctx, func() error {
		m.at = time.Now()
		var err error
		if m.host, err = proc.HostIdle(); err != nil {
			return err
		}
		m.used, err = subject.CPUTime()
		return err
	})
	return m, err
}

// noLook is for those who only wait for a drain.
func noLook() error { return nil }

func (b *bench) measureBusy(ctx context.Context, subject *collector.Collector, to *report.Busy) error {
	if err := subject.Sleep(ctx, time.Until(subject.Started().Add(startUp))); err != nil {
		return err
	}
	before, err := atDrain(ctx, subject)
	if err != nil {
		return err
	}
	if err := subject.Sleep(ctx, b.seconds); err != nil {
		return err
	}
	// What the polling for the moment of the drain costs the Collector is not part of its work.
	used, err := subject.CPUTime()
	if err != nil {
		return err
	}
	after, err := atDrain(ctx, subject)
	if err != nil {
		return err
	}
	to.Process = report.Split{StartUp: before.used, Steady: used - before.used}
	fill(to, before, after)
	return b.fillFromOutside(subject, to)
}

// fill takes what lies between two moments.
func fill(to *report.Busy, before, after moment) {
	to.Elapsed = after.at.Sub(before.at)
	idle := after.host.Idle - before.host.Idle
	working := to.Elapsed*time.Duration(after.host.CPUs) - idle - (after.used - before.used)
	to.Expected = float64(working) / float64(to.Period)
	to.Got = after.events() - before.events()
	to.GotStartUp = before.events()
	to.Lost, to.Incomplete = losses(after.metrics)
	to.Level = after.metrics.Sum("otelcol_ebpf_limit_level", "probe", "on_cpu")
	to.Runs = uint64(after.metrics.Sum("otelcol_ebpf_probe_runs", "program", "on_cpu.sample"))
	to.Time = seconds(after.metrics.Sum("otelcol_ebpf_probe_cpu_time", "program", "on_cpu.sample"))
	to.Engine = report.Split{StartUp: before.engine(), Steady: after.engine() - before.engine()}
}

func (b *bench) fillFromOutside(subject *collector.Collector, to *report.Busy) error {
	watched := subject.Watched()
	if watched.Errors != nil {
		return watched.Errors
	}
	to.RSSAnon, to.RSSFile, to.RSS = watched.Memory.Anon, watched.Memory.File, watched.Memory.Peak
	to.FirstSamples = append(to.FirstSamples, watched.FirstSample)
	kernelMaps, err := subject.KernelMaps()
	if err != nil {
		return err
	}
	to.KernelMaps, to.KernelMapBytes = kernelMaps.Maps, kernelMaps.Bytes
	to.RunsByKernel, to.TimeByKernel, err = collector.ProgramRuns(watched.Program)
	return err
}

func losses(metrics prom.Metrics) (lost, cut map[string]float64) {
	lost, cut = map[string]float64{}, map[string]float64{}
	for _, s := range metrics["otelcol_ebpf_events_lost"] {
		key := s.Labels["probe"] + "/" + s.Labels["reason"]
		if s.Labels["outcome"] == "incomplete" {
			cut[key] += s.Value
		} else {
			lost[key] += s.Value
		}
	}
	for _, s := range metrics["otelcol_ebpf_batches_dropped"] {
		lost["batches/"+s.Labels["reason"]] += s.Value
	}
	return lost, cut
}

// measureBare measures over the same times.
func (b *bench) measureBare(ctx context.Context, subject *collector.Collector, to *report.Busy) error {
	if err := subject.Sleep(ctx, time.Until(subject.Started().Add(startUp))); err != nil {
		return err
	}
	before, err := subject.CPUTime()
	if err != nil {
		return err
	}
	if err := subject.Sleep(ctx, b.seconds); err != nil {
		return err
	}
	after, err := subject.CPUTime()
	if err != nil {
		return err
	}
	to.Bare = report.Split{StartUp: before, Steady: after - before}
	watched := subject.Watched()
	to.BareAnon = watched.Memory.Anon
	return watched.Errors
}
