// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	collector, source string
	duration, every   time.Duration
	processes, names  int
	perSecond         int
	inScope           bool
	lines, kilobytes  int
}

func main() {
	var o options
	flag.StringVar(&o.collector, "collector", "bin/otelcol-ebpf", "the distribution")
	flag.StringVar(&o.source, "source", "internal/e2e/testdata/forks.c", "the program that the load is made of")
	flag.DurationVar(&o.duration, "duration", time.Hour, "how long it runs")
	flag.DurationVar(&o.every, "every", 30*time.Second, "time between two scrapes")
	flag.IntVar(&o.processes, "processes", 200, "processes that run all the time")
	flag.IntVar(&o.names, "services", 20, "executables that they are of")
	flag.IntVar(&o.perSecond, "short", 10, "processes that begin in each second and end at once")
	flag.BoolVar(&o.inScope, "in-scope", false, "observe the load alone, not the whole host")
	flag.IntVar(&o.lines, "lines", 3000, "lines of a scrape that are allowed")
	flag.IntVar(&o.kilobytes, "kilobytes", 400, "size of a scrape that is allowed, as it is transferred, in 1000 bytes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cardinality:", err)
		os.Exit(1)
	}
}

// run starts the distribution and the load, and measures.
func (o *options) run(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "cardinality-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	host := &load{folder: folder}
	defer host.stop()
	if err := host.compile(ctx, o.source, o.names); err != nil {
		return err
	}
	if err := host.start(o.processes); err != nil {
		return err
	}
	scraped, end, err := o.startCollector(ctx, folder)
	if err != nil {
		return err
	}
	defer end()
	return o.measure(ctx, host, &scraped)
}

// measure prints what is scraped, and compares it with what is allowed.
func (o *options) measure(ctx context.Context, host *load, scraped *pages) error {
	fmt.Printf("%10s %8s %8s %10s %10s %10s %10s\n", "seconds", "lines", "series", "bytes", "by gzip", "asked", "counted")
	began := time.Now()
	var all []scrape
	for at := o.every; at <= o.duration; at += o.every {
		if err := host.ask(ctx, o.perSecond, began.Add(at)); err != nil {
			return err
		}
		time.Sleep(settled) // what was counted is in the next report
		s, err := scraped.read()
		if err != nil {
			return err
		}
		s.asked = host.asked
		fmt.Printf("%10.0f %8d %8d %10d %10d %10d %10.0f\n", time.Since(began).Seconds(), s.lines, s.series, s.bytes, s.compressed, s.asked, s.counted)
		all = append(all, s)
	}
	if len(all) > 0 {
		for _, what := range slices.Sorted(maps.Keys(all[len(all)-1].lost)) {
			fmt.Printf("lost: %s %.0f\n", what, all[len(all)-1].lost[what])
		}
	}
	return o.judge(all)
}

// judge compares the scrapes with what is allowed: the second half of them is as large as the first one but for a tenth.
func (o *options) judge(all []scrape) error {
	if len(all) < 2 {
		return fmt.Errorf("%d scrapes say nothing: the duration must be two times that between scrapes at least", len(all))
	}
	first, last := all[(len(all)-1)/2], all[len(all)-1]
	var errs []error
	if last.lines > o.lines || last.compressed > o.kilobytes*1000 {
		errs = append(errs, fmt.Errorf("a scrape has %d lines and %d bytes: %d and %d are allowed", last.lines, last.compressed, o.lines, o.kilobytes*1000))
	}
	if last.lines > first.lines+first.lines/10 {
		errs = append(errs, fmt.Errorf("scrapes grow: from %d lines to %d in the second half", first.lines, last.lines))
	}
	if got, want := last.counted-all[0].counted, float64(last.asked-all[0].asked); got != want {
		errs = append(errs, fmt.Errorf("the short-lived processes asked %.0f times since the first scrape: %.0f requests were counted", want, got))
	}
	return errors.Join(errs...)
}
