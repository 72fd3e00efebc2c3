// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed source
var sources embed.FS

// Busy are the programs of the fixed load, ready to start: two busy C threads, one Go and one Java program.
type Busy struct {
	Dir  string // where what was compiled lies
	Nice int
	// Absent names the programs that this host cannot build or run, and why.
	Absent   map[string]string
	commands []Command
	output   *os.File
}

// NewBusy compiles the programs into dir. module is the folder of the module, for the Go program. A compiler that is not
// installed leaves its program out.
func NewBusy(ctx context.Context, dir, module string, nice int) (*Busy, error) {
	b := &Busy{Dir: dir, Nice: nice, Absent: map[string]string{}}
	var err error
	if b.output, err = os.Create(filepath.Join(dir, "load.log")); err != nil {
		return nil, fmt.Errorf("creating the log of the load: %w", err)
	}
	for _, prepare := range []struct {
		name string
		tool string
		run  func(context.Context, string, string) (Command, error)
	}{
		{"c", "gcc", b.c},
		{"go", "go", b.golang},
		{"java", "javac", b.java},
	} {
		tool, err := exec.LookPath(prepare.tool)
		if err != nil {
			b.Absent[prepare.name] = err.Error()
			continue
		}
		command, err := prepare.run(ctx, tool, module)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("preparing the %s load: %w", prepare.name, err), b.Close())
		}
		command.Name = prepare.name
		b.commands = append(b.commands, command)
	}
	return b, nil
}

// c is built with frame pointers, which the profiler unwinds by.
func (b *Busy) c(ctx context.Context, gcc, _ string) (Command, error) {
	source, err := b.write("busy.c")
	if err != nil {
		return Command{}, err
	}
	binary := filepath.Join(b.Dir, "busy-c")
	return Command{Path: binary}, compile(exec.CommandContext(ctx, gcc, "-O1", "-fno-omit-frame-pointer", "-pthread", "-o", binary, source))
}

func (b *Busy) golang(ctx context.Context, tool, module string) (Command, error) {
	binary := filepath.Join(b.Dir, "busy-go")
	build := exec.CommandContext(ctx, tool, "build", "-buildvcs=false", "-o", binary, "./internal/demo")
	build.Dir = module
	return Command{Path: binary, Args: []string{"-duration"}}, compile(build)
}

// java needs the JDK: it is javac that is looked for, and the program is compiled by java itself.
func (b *Busy) java(context.Context, string, string) (Command, error) {
	source, err := b.write("Busy.java")
	if err != nil {
		return Command{}, err
	}
	java, err := exec.LookPath("java")
	return Command{Path: java, Args: []string{"-XX:+UseSerialGC", "-Xmx64m", source}}, err
}

func (b *Busy) write(name string) (string, error) {
	text, err := sources.ReadFile("source/" + name)
	if err != nil {
		return "", fmt.Errorf("reading the source of the load: %w", err)
	}
	path := filepath.Join(b.Dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("writing the source of the load: %w", err)
	}
	return path, nil
}

func compile(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w: %.2000s", strings.Join(cmd.Args, " "), err, output)
	}
	return nil
}

// Start runs all programs for a time; they end by themselves.
func (b *Busy) Start(ctx context.Context, duration time.Duration) (map[string]*Process, error) {
	started := map[string]*Process{}
	for _, name := range b.Names() {
		p, err := b.StartOne(ctx, name, duration)
		if err != nil {
			return nil, errors.Join(err, StopAll(started))
		}
		started[name] = p
	}
	return started, nil
}

// Names are the names of the programs that can be started.
func (b *Busy) Names() []string {
	var names []string
	for _, command := range b.commands {
		names = append(names, command.Name)
	}
	return names
}

// StartOne runs one of the programs for a time; it ends by itself.
func (b *Busy) StartOne(ctx context.Context, name string, duration time.Duration) (*Process, error) {
	for _, command := range b.commands {
		if command.Name != name {
			continue
		}
		seconds := strconv.FormatFloat(duration.Seconds(), 'f', 3, 64)
		if name == "go" {
			seconds += "s"
		}
		command.Args = append(command.Args[:len(command.Args):len(command.Args)], seconds)
		command.CPU, command.Nice, command.Output = AnyCPU, b.Nice, b.output
		return Start(ctx, command)
	}
	return nil, fmt.Errorf("starting the load: there is no program %q", name)
}

// StopAll stops programs that have not ended yet.
func StopAll(started map[string]*Process) error {
	var errs []error
	for _, p := range started {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}

// Close closes the log.
func (b *Busy) Close() error { return b.output.Close() }
