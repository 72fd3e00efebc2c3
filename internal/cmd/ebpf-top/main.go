// SPDX-License-Identifier: Apache-2.0

// Command ebpf-top shows the hottest functions of the host, its requests, connections and triggers, from what the
// Collector's file exporter writes as OTLP JSON lines. It reads DIR/profiles.json, DIR/metrics.json and DIR/logs.json as
// they grow, follows their rotation, and ends on SIGINT or SIGTERM.
//
// On a terminal it redraws one view and takes keys; ? lists them. Elsewhere it prints one list after the other.
//
// With -flamegraphs it draws what each list counts as a flame graph, too, below the same folder. With -pprof or -folded
// it writes the profiles that are in the folder to a file, and ends.
//
//	ebpf-top -dir ./out [-interval 5s] [-n ROWS] [-sort self|total] [-flamegraphs N] [-once] [-plain]
//	ebpf-top -dir ./out [-pprof FILE] [-folded FILE] [-type TYPE]
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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/terminal"
)

// Names of the files that the file exporter writes in the folder.
const (
	profilesFile = "profiles.json"
	metricsFile  = "metrics.json"
	logsFile     = "logs.json"
)

// options are the command line.
type options struct {
	dir      string
	interval time.Duration
	rows     int
	byTotal  bool
	once     bool
	plain    bool
	// pprof and folded are files to write instead of lists, of samples of sampleType.
	pprof, folded, sampleType string
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
	err = execute(ctx, opts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ebpf-top:", err)
		os.Exit(1)
	}
}

// file is the path of a file that is read.
func (o options) file(name string) string { return filepath.Join(o.dir, name) }

// execute does what the command line asks for.
func execute(ctx context.Context, opts options) error {
	if opts.pprof != "" || opts.folded != "" {
		return writeProfiles(opts, os.Stdout)
	}
	if opts.plain || opts.once || !terminal.Is(os.Stdout) {
		return run(ctx, opts, &printer{out: os.Stdout, rows: opts.rows, byTotal: opts.byTotal}, time.Now)
	}
	return runLive(ctx, opts, "/dev/tty")
}

// parse reads the command line; usage goes to usage.
func parse(args []string, usage io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("ebpf-top", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&opts.dir, "dir", "./out", "folder of the file exporter's "+profilesFile+", "+metricsFile+" and "+logsFile)
	flags.DurationVar(&opts.interval, "interval", 5*time.Second, "time between two lists, at least 100ms")
	flags.IntVar(&opts.rows, "n", 20, "list `ROWS` functions where lists are printed, 1 to 1000")
	order := flags.String("sort", "self", "`COLUMN` that orders the functions: self or total")
	flags.IntVar(&opts.graphs.Keep, "flamegraphs", 0,
		"also draw each list as DIR/flamegraph.html and keep the last `N` drawings below DIR/flamegraphs, 0 to 1000")
	flags.BoolVar(&opts.once, "once", false, "print one list of what is in the file and end; an error if there is nothing")
	flags.BoolVar(&opts.plain, "plain", false, "print one list after the other also on a terminal")
	flags.StringVar(&opts.pprof, "pprof", "", "write the profiles to `FILE` for go tool pprof, and end")
	flags.StringVar(&opts.folded, "folded", "", "write the profiles to `FILE` as folded stacks, for flamegraph.pl and Speedscope, and end")
	flags.StringVar(&opts.sampleType, "type", "samples", "`TYPE` of the samples that -pprof and -folded write: samples (CPU time), off_cpu, page_faults, alloc_space, inuse_space, …")
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
	opts.graphs.Dir = opts.dir
	return opts, nil
}
