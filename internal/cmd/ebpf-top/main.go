// SPDX-License-Identifier: Apache-2.0

// Command ebpf-top prints the hottest functions of the host, from the profiles
// that the Collector's file exporter writes as OTLP JSON lines. It reads
// DIR/profiles.json as it grows, follows its rotation, and ends on SIGINT or
// SIGTERM.
//
// With -flamegraphs it draws what each list counts as a flame graph, too, below
// the same folder.
//
//	ebpf-top -dir ./out [-interval 5s] [-n ROWS] [-sort self|total] [-flamegraphs N] [-once]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/flamegraph"
)

// fileName is what the file exporter writes in the directory.
const fileName = "profiles.json"

// options are the command line.
type options struct {
	path     string
	interval time.Duration
	rows     int
	byTotal  bool
	once     bool
	// graphs is where flame graphs go; none are written when its Keep is 0.
	graphs flamegraph.Folder
}

func main() {
	opts, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ebpf-top:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err = run(ctx, opts, newScreen(os.Stdout), time.Now)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ebpf-top:", err)
		os.Exit(1)
	}
}

// parse reads the command line; usage goes to usage.
func parse(args []string, usage io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("ebpf-top", flag.ContinueOnError)
	flags.SetOutput(usage)
	dir := flags.String("dir", "./out", "folder of the file exporter's "+fileName)
	flags.DurationVar(&opts.interval, "interval", 5*time.Second, "time between two lists, at least 100ms")
	flags.IntVar(&opts.rows, "n", 20, "list `ROWS` functions, 1 to 1000")
	order := flags.String("sort", "self", "`COLUMN` that orders the functions: self or total")
	flags.IntVar(&opts.graphs.Keep, "flamegraphs", 0,
		"also draw each list as DIR/flamegraph.html and keep the last `N` drawings below DIR/flamegraphs, 0 to 1000")
	flags.BoolVar(&opts.once, "once", false, "print one list of what is in the file and end; an error if there is nothing")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.interval < 100*time.Millisecond:
		return opts, fmt.Errorf("-interval %v: must be at least 100ms", opts.interval)
	case opts.rows < 1 || opts.rows > 1000:
		return opts, fmt.Errorf("-n %d: must be 1 to 1000", opts.rows)
	case opts.graphs.Keep < 0 || opts.graphs.Keep > 1000:
		return opts, fmt.Errorf("-flamegraphs %d: must be 0 to 1000", opts.graphs.Keep)
	case *order != "self" && *order != "total":
		return opts, fmt.Errorf("-sort %s: must be self or total", *order)
	}
	opts.byTotal = *order == "total"
	opts.path = filepath.Join(*dir, fileName)
	opts.graphs.Dir = *dir
	return opts, nil
}
