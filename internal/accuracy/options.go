// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	binary   string
	programs []string
	seconds  time.Duration // of load for each program
	period   time.Duration
	json     string
	keep     string
	required bool
}

// parseOptions reads the command line; known are the names of all programs.
func parseOptions(args, known []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", filepath.Join("bin", "otelcol-ebpf"), "the Collector")
	programs := flags.String("programs", strings.Join(known, ","), "what to judge")
	flags.DurationVar(&o.seconds, "seconds", 10*time.Second, "length of the load of each program, 2s to 10m")
	flags.DurationVar(&o.period, "period", 3*time.Millisecond, "time between two samples on each CPU, 1ms to 100ms")
	flags.StringVar(&o.json, "json", "", "write the figures to this file")
	flags.StringVar(&o.keep, "keep", "", "keep the profiles as OTLP JSON lines, perf maps and the log of the Collector in this folder")
	flags.BoolVar(&o.required, "required", false, "exit with status 1 also when a program is not installed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.programs = strings.Split(*programs, ",")
	return o, o.validate(known, flags.Args())
}

func (o options) validate(known, rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("arguments %q: none are allowed", rest))
	}
	for _, name := range o.programs {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("-programs %q: allowed are %s", name, strings.Join(known, ", ")))
		}
	}
	if o.seconds < 2*time.Second || o.seconds > 10*time.Minute {
		errs = append(errs, fmt.Errorf("-seconds %s: must be from 2s to 10m", o.seconds))
	}
	if o.period < time.Millisecond || o.period > 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("-period %s: must be from 1ms to 100ms", o.period))
	}
	if _, err := os.Stat(o.binary); err != nil {
		errs = append(errs, fmt.Errorf("looking for the Collector, which `make build` makes: %w", err))
	}
	return errors.Join(errs...)
}
