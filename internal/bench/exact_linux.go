// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/collector"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

const (
	period = 10 * time.Millisecond
	// exactTime is how long each program runs: some 600 samples of each thread.
	exactTime = 6 * time.Second
	// settle is the time after them.
	settle = 2 * time.Second
)

// exact profiles the programs of the fixed load from before their start to after their end.
func (b *bench) exact(ctx context.Context) (err error) {
	progress("exact: programs that run for %s each, and the profiles of them", exactTime)
	load, err := b.load(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	file := filepath.Join(b.dir, "profiles.json")
	subject, err := collector.Start(ctx, b.binary, b.dir, collector.Config{
		Receiver: &collector.Receiver{Period: period, KernelStacks: true},
		File:     file,
	}, b.nice)
	if err != nil {
		return err
	}
	used, err := b.runPrograms(ctx, subject, load)
	if err = errors.Join(err, subject.Stop()); err != nil {
		return err
	}
	weighed, err := weigh(file)
	if err != nil {
		return err
	}
	for _, p := range used {
		b.report.Exact = append(b.report.Exact, report.Exact{
			Program: p.name, Elapsed: p.elapsed, CPUTime: p.used,
			Expected: float64(p.used) / float64(period), Got: weighed[p.pid],
		})
	}
	return nil
}

// load prepares the fixed load and notes what is missing from it.
func (b *bench) load(ctx context.Context) (*workload.Busy, error) {
	load, err := workload.NewBusy(ctx, b.dir, b.module, b.nice)
	if err != nil {
		return nil, err
	}
	for name, why := range load.Absent {
		b.note("the load has no %s program: %s", name, why)
	}
	return load, nil
}

// program is what a program of the load has used.
type program struct {
	name          string
	pid           int64
	elapsed, used time.Duration
}

// runPrograms runs one program after the other: alone, so that few samples fall to chance.
func (b *bench) runPrograms(ctx context.Context, subject *collector.Collector, load *workload.Busy) ([]program, error) {
	if _, err := subject.AtDrain(ctx, noLook); err != nil {
		return nil, err
	}
	var out []program
	for _, name := range load.Names() {
		p, err := load.StartOne(ctx, name, exactTime)
		if err != nil {
			return nil, err
		}
		used, err := p.Wait()
		if err != nil {
			return nil, err
		}
		out = append(out, program{name: name, pid: int64(p.PID()), elapsed: time.Since(p.Started()), used: used})
	}
	return out, subject.Sleep(ctx, settle)
}

// weigh sums the samples of each process in a file of OTLP JSON lines.
func weigh(path string) (map[int64]int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the exported profiles: %w", err)
	}
	defer file.Close()
	sums := map[int64]int64{}
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return sums, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s, line %d: %w", path, n, err)
		}
		if err := pdata.FoldJSON(line, func(s pdata.FoldedSample) error {
			pid, ok := s.Resource.Get("process.pid")
			if !ok {
				return errors.New("a sample's resource has no process.pid")
			}
			sums[pid.Int()] += s.Value
			return nil
		}); err != nil {
			return nil, fmt.Errorf("reading %s, line %d: %w", path, n, err)
		}
	}
}
