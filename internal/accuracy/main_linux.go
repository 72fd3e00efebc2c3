// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/programs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args, programs.Names())
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("loading BPF programs needs root")
	}
	r, err := judgeAll(ctx, o)
	if err != nil {
		return err
	}
	return finish(o, r)
}

// judgeAll judges one program after the other.
func judgeAll(ctx context.Context, o options) (r report.Report, err error) {
	dir, err := os.MkdirTemp("", "ebpf-accuracy-")
	if err != nil {
		return r, fmt.Errorf("creating a folder for the programs: %w", err)
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		} else if ctx.Err() == nil {
			err = fmt.Errorf("%w (the logs are left in %s)", err, dir)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return r, fmt.Errorf("opening the folder of the programs to their user: %w", err)
	}
	r.Load, r.Period = o.seconds, o.period
	for _, name := range o.programs {
		fmt.Fprintf(os.Stderr, "accuracy: %s: starting it, %s of load\n", name, o.seconds)
		row, err := judgeOne(ctx, o, dir, programs.Named(name))
		if errors.Is(err, programs.ErrAbsent) {
			r.Absent = append(r.Absent, err.Error())
			continue
		}
		if err != nil {
			return r, err
		}
		r.Programs = append(r.Programs, row)
	}
	return r, nil
}

// finish prints and writes the report and compares it with the targets.
func finish(o options, r report.Report) error {
	if err := r.Print(os.Stdout); err != nil {
		return err
	}
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the report: %w", err)
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if o.required && len(r.Absent) > 0 {
		return errors.New("not all programs are installed")
	}
	return r.Missed()
}
