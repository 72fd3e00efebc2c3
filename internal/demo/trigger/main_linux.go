// SPDX-License-Identifier: Apache-2.0

// Command trigger demonstrates profiles that start automatically: it starts small services, each with a fault of its own on command, and
// the Collector with a policy for each, and prints when a policy fires, why, and which function the profile shows.
//
// It ends by itself, and all that it starts ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// longest is when the whole is given up.
const longest = 3 * time.Minute

func main() {
	if len(os.Args) == 3 && os.Args[1] == serviceCommand {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "service:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo-trigger:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	binary   string
	troubles []trouble
	// within is how long the whole may take.
	within time.Duration
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("trigger", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", "bin/otelcol-ebpf", "the Collector, which make build makes")
	flags.DurationVar(&o.within, "within", time.Minute, "it fails if it takes longer than this")
	var all []string
	for _, t := range troubles {
		all = append(all, t.name)
	}
	which := flags.String("troubles", strings.Join(all, ","), "what happens, in this order")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for _, name := range strings.Split(*which, ",") {
		i := slices.Index(all, name)
		if i < 0 {
			return o, fmt.Errorf("-troubles %q: there are %s", name, strings.Join(all, ", "))
		}
		o.troubles = append(o.troubles, troubles[i])
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("loading BPF programs is a privilege: start it as root")
	}
	dir, err := os.MkdirTemp("", "ebpf-demo-")
	if err != nil {
		return fmt.Errorf("creating a folder for what the Collector writes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &scene{options: o, dir: dir, began: time.Now()}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.begin(ctx); err != nil {
		return err
	}
	for i := range s.services {
		if err := s.play(ctx, s.services[i]); err != nil {
			return err
		}
	}
	return s.close(ctx)
}
