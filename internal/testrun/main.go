// SPDX-License-Identifier: Apache-2.0

// Command testrun runs the tests of packages: of several packages at a time, and those of a large package in several processes. At the end it lists
// every test that was skipped, with its reason.
//
//	testrun [flags] PACKAGE...
//
// A package runs under the race detector if it or its tests have goroutines, locks or atomics of their own; those of other packages can have no race.
// With -repeat tests run that number of times, one at a time, and the report says how busy the machine was: that is for tests that measure.
//
// The exit code is 0 if all tests passed, 1 if one failed or, with -strict, was skipped, and 2 if they could not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	packages []string
	run      string
	skip     string
	tags     string
	flags    string // of go test -c, separated by spaces
	race     string
	split    []split // the packages that run first
	parallel int
	repeat   int
	strict   bool
	timeout  time.Duration
	out      io.Writer
}

// split says in how many processes the tests of a package run. Its name is the end of the package's path.
type split struct {
	name  string
	parts int
}

func parse(args []string) (*options, error) {
	o := &options{out: os.Stdout}
	fs := flag.NewFlagSet("testrun", flag.ContinueOnError)
	fs.StringVar(&o.run, "run", "", "run tests whose name matches this `regexp`")
	fs.StringVar(&o.skip, "skip", "", "leave out tests whose name matches this `regexp`")
	fs.StringVar(&o.tags, "tags", "", "build `tags`")
	fs.StringVar(&o.flags, "build", "", "further build `flags`, separated by spaces; those that other packages are built by save compiling what both import")
	fs.StringVar(&o.race, "race", "auto", "race detector: `on`, off, or auto: where a package has goroutines")
	fs.IntVar(&o.parallel, "parallel", 2*runtime.NumCPU(), "processes at a time")
	fs.IntVar(&o.repeat, "repeat", 1, "run each test so many times, one at a time; it passes if more than half of them pass")
	fs.BoolVar(&o.strict, "strict", os.Getenv("STRICT") == "1", "fail if a test is skipped (STRICT=1)")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Minute, "end a process after this time")
	fs.Func("split", "run the tests of a package first and in several processes, as `PACKAGE=N`; the package is the end of its path; start with the package that takes longest", func(text string) error {
		name, number, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || name == "" {
			return fmt.Errorf("%q is not PACKAGE=N", text)
		}
		o.split = append(o.split, split{name, n})
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	o.packages = fs.Args()
	switch {
	case len(o.packages) == 0:
		return nil, errors.New("no package is given")
	case o.race != "auto" && o.race != "on" && o.race != "off":
		return nil, fmt.Errorf("-race %s: want on, off or auto", o.race)
	case o.parallel < 1 || o.repeat < 1:
		return nil, errors.New("-parallel and -repeat are at least 1")
	}
	for _, pattern := range []string{o.run, o.skip} {
		if _, err := regexp.Compile(pattern); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	passed := false
	if err == nil {
		passed, err = o.execute(ctx)
	}
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "testrun: %v\n", err)
		os.Exit(2)
	case !passed:
		os.Exit(1)
	}
}

// execute builds and runs everything, and prints the report.
func (o *options) execute(ctx context.Context) (passed bool, err error) {
	began := time.Now()
	packages, err := o.list(ctx)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "testrun-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	before := readLoad()
	units := make(chan *unit, 10000)
	built := make(chan error, 1)
	go func() {
		defer close(units)
		built <- o.build(ctx, dir, packages, units)
	}()
	r := &report{out: o.out, strict: o.strict, repeat: o.repeat}
	o.runAll(ctx, units, r)
	if err := <-built; err != nil {
		return false, err
	}
	if o.repeat > 1 {
		r.load = readLoad().since(before)
	}
	return r.end(time.Since(began)), ctx.Err()
}
