// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

type options struct {
	binary, attacks, log       string
	duration, interval, stop   time.Duration
	memory, symbols, processes int
	cpu, duty                  float64
	all                        bool
	settle                     time.Duration
}

// startWithin is how long the Collector may take to start.
const startWithin = time.Minute

func main() {
	if len(os.Args) > 1 {
		if role := roles[os.Args[1]]; role != nil {
			exit(role(os.Args[2:]))
		}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	exit(run(ctx, os.Args[1:]))
}

func exit(err error) {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	default:
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", "bin/otelcol-ebpf", "the Collector")
	flags.StringVar(&o.attacks, "attacks", "", "which ones, with commas between them; empty: all of "+allNames()+"; none: the service alone")
	flags.StringVar(&o.log, "log", "/tmp/hostile-collector.log", "where the Collector's log is written")
	flags.BoolVar(&o.all, "v", false, "print every profile of the service, not only those that are not whole")
	flags.DurationVar(&o.duration, "duration", time.Minute, "how long the attacks run")
	flags.DurationVar(&o.interval, "interval", 2*time.Second, "report interval")
	flags.DurationVar(&o.stop, "stop", 5*time.Second, "how long the Collector may take to end after SIGTERM")
	flags.DurationVar(&o.settle, "settle", 5*time.Second, "how long after the start the first profile is judged")
	flags.IntVar(&o.memory, "memory", 256, "limits::memory_mib")
	flags.Float64Var(&o.cpu, "cpu", 2, "limits::cpu_percent")
	flags.IntVar(&o.symbols, "symbols", 1_000_000, "symbols of each file of the attack symbols")
	flags.IntVar(&o.processes, "processes", 8, "processes of each attack")
	flags.Float64Var(&o.duty, "duty", 0.1, "share of a CPU that each process of an attack takes")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	list, err := chosen(o.attacks)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("loading BPF programs needs root")
	}
	s, err := newStage(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, a := range list {
		if a.prepare == nil {
			continue
		}
		if err := a.prepare(s); err != nil {
			return fmt.Errorf("preparing the attack %s: %w", a.name, err)
		}
	}
	s.end = time.Now().Add(o.duration + startWithin)
	return play(ctx, s, list)
}

// play runs the service, the attacks and the Collector, and says what became of them.
func play(ctx context.Context, s *stage, list []attack) error {
	pid, err := s.start(ctx, unprivileged, steadyRole, "-dir", s.dir, "-for", s.left().String())
	if err != nil {
		return err
	}
	j := &judge{pid: strconv.Itoa(pid), dir: s.dir, interval: s.options.interval}
	done := make(chan struct{})
	defer close(done)
	go j.watch(done)
	requests, err := s.startWeb(ctx)
	if err != nil {
		return err
	}
	c, err := startCollector(s, j.message)
	if err != nil {
		return err
	}
	err = c.ready(ctx)
	s.end = time.Now().Add(s.options.duration)
	for _, a := range list {
		if err == nil {
			fmt.Printf("attack %s: %s\n", a.name, a.does)
			err = a.start(ctx, s)
			j.victim = j.victim || a.name == namesAttack.name
			j.reader = j.reader || a.name == secretsAttack.name
		}
	}
	began := time.Now()
	s.cached.watch(ctx, filepath.Join(s.dir, checksumFolder))
	if err == nil {
		err = s.ask(ctx, c, requests)
	}
	return errors.Join(err, s.conclude(ctx, c, j, began))
}

// mostCPU is what the Collector may take: three times what it is to keep to in the long run, since what can wait has as much again in all of its lanes
// while attacks keep them busy, and what is done once, such as loading programs and reading what the host runs.
func (s *stage) mostCPU(ran time.Duration) time.Duration {
	const once = 10 * time.Second
	return once + time.Duration(3*s.options.cpu/100*float64(ran))
}

// ask sends requests once the Collector has settled, until the end, and compares their number with what it reports.
func (s *stage) ask(ctx context.Context, c *collector, requests *client) error {
	if err := c.wait(ctx, s.options.settle); err != nil {
		return err
	}
	requests.start(ctx)
	err := c.wait(ctx, time.Until(s.end))
	requests.stop()
	return errors.Join(err, requests.compare(ctx, c, s.options.interval))
}

// conclude ends the Collector and prints the verdict.
func (s *stage) conclude(ctx context.Context, c *collector, j *judge, began time.Time) error {
	early, errCache := s.endedEarly(), s.cached.judge(s.options.processes)
	cpu, errCPU := c.cpu()
	self, errSelf := c.self(ctx)
	asked := time.Now()
	took, errStop := c.stop(s.options.stop)
	j.mu.Lock()
	defer j.mu.Unlock()
	bad, judged := 0, 0
	last := j.lastEnd()
	for i := range j.profiles {
		v := &j.profiles[i]
		if !v.start.IsZero() && v.start.Before(began.Add(s.options.settle)) {
			continue
		}
		judged++
		if len(v.wrong) > 0 {
			bad++
		}
		if len(v.wrong) > 0 || s.options.all {
			fmt.Printf("profile of %s, %s at %s: %v; %v\n", v.start.Format("15:04:05.0"), v.length, v.period, v.wrong, v.named)
		}
	}
	fmt.Printf("ran %.0f s: %d messages, %d profiles of the service, %d judged, %d of them not whole; %d samples of all, %d frames of attackers without a name\n",
		asked.Sub(began).Seconds(), j.messages, len(j.profiles), judged, bad, j.total, j.unnamed)
	fmt.Printf("CPU time of the Collector %s, SIGTERM took %s, the last profile ends %s before it\n",
		cpu.Round(10*time.Millisecond), took.Round(time.Millisecond), asked.Sub(last).Round(time.Millisecond))
	fmt.Printf("frames of the victim: %d with its own names, %d with names of impostors; %d frames with names of a file of root\n", j.genuine, j.falsely, j.secret)
	for _, name := range []string{"frames", "frames_unnamed", "symbol_tables", "symbol_errors", "symbol_evictions", "degraded", "limit_level"} {
		for _, series := range self["otelcol_ebpf_"+name] {
			fmt.Printf("  %s %v\n", name, series)
		}
	}
	fmt.Printf("frames with names of a perf map that a process may have: %d; debug files of attackers in the page cache, at most: %d MiB\n", j.opened, s.cached.most>>20)
	errs := []error{early, errCPU, errSelf, errStop, errCache}
	if most := s.mostCPU(asked.Sub(began)); cpu > most {
		errs = append(errs, fmt.Errorf("the Collector took %s of CPU time, at most %s are allowed", cpu.Round(10*time.Millisecond), most.Round(10*time.Millisecond)))
	}
	if j.reader && j.opened == 0 {
		errs = append(errs, errors.New("no frame has a name of the perf map that a process has of its own"))
	}
	if want := int((asked.Sub(began)-s.options.settle)/s.options.interval) - 1 - j.unsampled; judged < want {
		errs = append(errs, fmt.Errorf("%d profiles of the steady service, at least %d expected", judged, want))
	}
	if j.victim && j.genuine == 0 {
		errs = append(errs, errors.New("no frame of the victim has a name of its own debug file"))
	}
	if j.falsely > 0 || j.secret > 0 {
		errs = append(errs, fmt.Errorf("%d frames have names of impostors, %d of a file of root", j.falsely, j.secret))
	}
	if bad > 0 {
		errs = append(errs, fmt.Errorf("%d profiles of the steady service are not whole", bad))
	}
	if late := asked.Sub(last); late > s.options.interval/2 {
		errs = append(errs, fmt.Errorf("the last interval was not exported: the last profile ends %s before SIGTERM", late))
	}
	return errors.Join(errs...)
}
