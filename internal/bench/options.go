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

// Parts of the benchmark.
const (
	partExact       = "exact"
	partBusy        = "busy"
	partWeb         = "web"
	partSwitch      = "switch"
	partNetwork     = "network"
	partConnections = "connections"
	partRequests    = "requests"
	partTLS         = "tls"
	partPolicy      = "policy"
	partTrigger     = "trigger"
)

var allParts = []string{partExact, partBusy, partWeb, partSwitch, partNetwork, partConnections, partRequests, partTLS, partPolicy, partTrigger}

// options are the command line.
type options struct {
	binary  string
	module  string // the module's folder
	parts   []string
	seconds time.Duration // of the steady state of busy
	webTime time.Duration // of each round of web
	rounds  int
	nice    int
	json    string
	page    string // Markdown
	commit  string
	pprof   string
	check   bool
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", "", "the Collector (default bin/otelcol-ebpf of the module)")
	parts := flags.String("parts", strings.Join(allParts, ","), "what to measure")
	flags.DurationVar(&o.seconds, "seconds", 30*time.Second, "length of the steady state of busy, 5s to 1h")
	flags.DurationVar(&o.webTime, "web-seconds", 15*time.Second, "length of each round of web, 2s to 10m")
	flags.IntVar(&o.rounds, "rounds", 2, "rounds of web, 1 to 20")
	flags.IntVar(&o.nice, "nice", 0, "nice level of the loads, the Collector and the benchmark itself, -20 to 19; below 0 keeps other work on the host out of the figures")
	flags.StringVar(&o.json, "json", "", "write the figures to this file")
	flags.StringVar(&o.page, "report", "", "write the figures and whether each target is met to this file, as Markdown")
	flags.StringVar(&o.commit, "commit", "unknown", "the commit of the Collector's source, for -report")
	flags.StringVar(&o.pprof, "pprof", "", "instead of measuring, write Go CPU and heap profiles of the Collector under the fixed load to this folder, or with -parts requests while nginx is asked at a constant rate")
	flags.BoolVar(&o.check, "check", false, "exit with status 1 when a target is missed or was not measured")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.parts = strings.Split(*parts, ",")
	if err := o.validate(flags.Args()); err != nil {
		return o, err
	}
	var err error
	if o.module, err = moduleRoot(); err != nil {
		return o, err
	}
	if o.binary == "" {
		o.binary = filepath.Join(o.module, "bin", "otelcol-ebpf")
	}
	if _, err := os.Stat(o.binary); err != nil {
		return o, fmt.Errorf("looking for the Collector, which `make build` makes: %w", err)
	}
	return o, nil
}

func (o options) validate(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("arguments %q: none are allowed", rest))
	}
	for _, part := range o.parts {
		if !slices.Contains(allParts, part) {
			errs = append(errs, fmt.Errorf("-parts %q: allowed are %s", part, strings.Join(allParts, ", ")))
		}
	}
	if o.seconds < 5*time.Second || o.seconds > time.Hour {
		errs = append(errs, fmt.Errorf("-seconds %s: must be from 5s to 1h", o.seconds))
	}
	if o.webTime < 2*time.Second || o.webTime > 10*time.Minute {
		errs = append(errs, fmt.Errorf("-web-seconds %s: must be from 2s to 10m", o.webTime))
	}
	if o.rounds < 1 || o.rounds > 20 {
		errs = append(errs, fmt.Errorf("-rounds %d: must be from 1 to 20", o.rounds))
	}
	if o.nice < -20 || o.nice > 19 {
		errs = append(errs, fmt.Errorf("-nice %d: must be from -20 to 19", o.nice))
	}
	return errors.Join(errs...)
}

// moduleRoot is the nearest folder above the working directory that has a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for go.mod: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("looking for go.mod: none in the working directory or above it")
		}
		dir = parent
	}
}
