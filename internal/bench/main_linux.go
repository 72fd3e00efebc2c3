// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/procfs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

const proc = procfs.FS("/proc")

// hostSampleTime is how long the host is sampled before the first part.
const hostSampleTime = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("loading BPF programs and reading their statistics needs root")
	}
	dir, err := os.MkdirTemp("", "ebpf-bench-")
	if err != nil {
		return fmt.Errorf("creating a folder for the loads: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	undo, err := workload.Renice(o.nice)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	b := &bench{options: o, dir: dir}
	if b.report.Host, err = lookAtHost(ctx); err != nil {
		return err
	}
	if b.report.Binary, err = digest(o.binary); err != nil {
		return err
	}
	if o.pprof != "" {
		return b.profile(ctx)
	}
	err = b.measure(ctx)
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, b.finish())
}

// digest names a build: the file may be replaced later.
func digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the Collector's binary: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("reading the Collector's binary: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// bench is one run.
type bench struct {
	options
	dir    string // temporary
	report report.Report
}

// measure runs the requested parts, also after one that failed: the figures of the others are
// valid.
func (b *bench) measure(ctx context.Context) error {
	var errs []error
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{partExact, b.exact},
		{partBusy, b.busy},
		{partWeb, b.web},
		{partSwitch, b.switches},
		{partNetwork, b.network},
		{partConnections, b.connections},
		{partRequests, b.requests},
		{partTLS, b.tls},
		{partPolicy, b.policies},
		{partTrigger, b.triggered},
	} {
		if !slices.Contains(b.parts, part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("measuring %s: %w", part.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// finish prints and writes the report.
func (b *bench) finish() error {
	b.report.Judge()
	fmt.Println()
	if err := b.report.Print(os.Stdout); err != nil {
		return err
	}
	if b.json != "" {
		text, err := json.MarshalIndent(b.report, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the report: %w", err)
		}
		if err := os.WriteFile(b.json, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if b.page != "" {
		var text bytes.Buffer
		if err := b.report.Markdown(&text, b.commit); err != nil {
			return err
		}
		if err := os.WriteFile(b.page, text.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if b.check && !b.report.Passed() {
		return errors.New("a target is missed or was not measured")
	}
	return nil
}

// note adds a remark once.
func (b *bench) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(b.report.Notes, text) {
		b.report.Notes = append(b.report.Notes, text)
	}
}

// progress prints what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

func lookAtHost(ctx context.Context) (report.Host, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return report.Host{}, fmt.Errorf("reading the kernel's name: %w", err)
	}
	before, err := proc.HostIdle()
	if err != nil {
		return report.Host{}, err
	}
	began := time.Now()
	if err := sleep(ctx, hostSampleTime); err != nil {
		return report.Host{}, err
	}
	after, err := proc.HostIdle()
	if err != nil {
		return report.Host{}, err
	}
	elapsed := time.Since(began)
	return report.Host{
		Kernel: unix.ByteSliceToString(name.Release[:]),
		CPUs:   after.CPUs,
		Others: max(0, float64(after.CPUs)-float64(after.Idle-before.Idle)/float64(elapsed)),
	}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
