// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/judge"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/programs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/collector"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// unlimited is limits::cpu_percent: sampling every few milliseconds must not be reduced.
const unlimited = 100

// reportInterval separates the samples of the first second from later ones.
const reportInterval = time.Second

// judgeOne runs one program under load, with the Collector in parallel, and judges what was
// written.
func judgeOne(ctx context.Context, o options, dir string, program programs.Program) (row report.Program, err error) {
	place, err := programs.NewPlace(dir, program.Name)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	running, err := program.Start(ctx, place)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, running.Stop()) }()
	row = report.Program{Name: program.Name, Version: version(ctx, running.Exe)}
	file, err := profile(ctx, o, dir, program.Name, running)
	if err != nil {
		return row, err
	}
	row.Result, err = judgeFile(file)
	if err == nil && o.keep != "" {
		err = keep(o.keep, program.Name, file, filepath.Join(filepath.Dir(file), "collector.log"), programs.PerfMap(int64(running.PID())))
	}
	return row, err
}

// profile lets the Collector write profiles of a program under load.
func profile(ctx context.Context, o options, dir, name string, running *programs.Running) (file string, err error) {
	own := filepath.Join(dir, name+"-collector")
	if err := os.Mkdir(own, 0o700); err != nil {
		return "", fmt.Errorf("making a folder for the Collector: %w", err)
	}
	file = filepath.Join(own, "profiles.json")
	selector := collector.Selector{Exe: running.Exe}
	if running.Alone {
		selector.PID = running.PID()
	}
	subject, err := collector.Start(ctx, o.binary, own, collector.Config{
		File: file,
		Receiver: &collector.Receiver{
			Period: o.period, KernelStacks: true, CPUPercent: unlimited, ReportInterval: reportInterval,
			Include: []collector.Selector{selector},
		},
	}, 0)
	if err != nil {
		return "", err
	}
	if err = running.Load(ctx, o.seconds); err == nil {
		err = subject.Sleep(ctx, time.Millisecond) // has it ended meanwhile?
	}
	return file, errors.Join(err, subject.Stop())
}

// judgeFile judges what the file exporter has written: one message a line.
func judgeFile(path string) (judge.Result, error) {
	file, err := os.Open(path)
	if err != nil {
		return judge.Result{}, fmt.Errorf("reading the profiles: %w", err)
	}
	defer file.Close()
	j := judge.New()
	j.PerfMap = func(pid int64) bool {
		info, err := os.Stat(programs.PerfMap(pid))
		return err == nil && info.Size() > 0
	}
	lines := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return j.Result(), j.Close()
		}
		if err != nil {
			return j.Result(), errors.Join(fmt.Errorf("reading line %d of %s: %w", number, path, err), j.Close())
		}
		if err := pdata.FoldJSON(line, func(s pdata.FoldedSample) error { j.Add(s); return nil }); err != nil {
			return j.Result(), errors.Join(fmt.Errorf("reading line %d of %s: %w", number, path, err), j.Close())
		}
	}
}

// version is the package that a file came with and its version; empty where dpkg does not know the file.
func version(ctx context.Context, path string) string {
	owner, err := exec.CommandContext(ctx, "dpkg-query", "-S", path).Output()
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(owner), ": ")
	text, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Package} ${Version}", name).Output()
	if err != nil {
		return name
	}
	return string(text)
}

// keep copies files that explain a result.
func keep(dir, name string, files ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keeping the profiles: %w", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // not every program has a perf map
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+"-"+filepath.Base(path)), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("keeping the profiles: %w", err)
		}
	}
	return nil
}
