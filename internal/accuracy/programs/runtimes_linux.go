// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"errors"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

const (
	// warmUp is how long the JVM runs before it is asked for its first perf map.
	warmUp = 2 * time.Second
	// mapInterval is how often it is asked again: it writes one when it is asked to, and what it has compiled since then has no name on the
	// host.
	mapInterval = time.Second
)

// alone makes a program of a process that keeps itself busy.
func alone(exe string, main *workload.Process) *Running {
	return &Running{Exe: exe, Alone: true, main: main, load: func(ctx context.Context, d time.Duration) error { return wait(ctx, main, d) }}
}

// wait lets a program run that keeps itself busy.
func wait(ctx context.Context, main *workload.Process, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-main.Ended():
		_, err := main.Wait()
		return errors.Join(errors.New("putting a program under load: it has ended too early"), err)
	case <-time.After(d):
		return nil
	}
}

func startPython(ctx context.Context, p *Place) (*Running, error) {
	python, err := find("python3")
	if err != nil {
		return nil, err
	}
	script, err := p.write("work.py")
	if err != nil {
		return nil, err
	}
	main, err := p.start(ctx, python, script)
	if err != nil {
		return nil, err
	}
	return alone(python, main), nil
}

func startNode(ctx context.Context, p *Place) (*Running, error) {
	node, err := find("node")
	if err != nil {
		return nil, err
	}
	script, err := p.write("work.js")
	if err != nil {
		return nil, err
	}
	main, err := p.start(ctx, node, "--perf-basic-prof", script)
	if err != nil {
		return nil, err
	}
	return alone(node, main), nil
}

func startJava(ctx context.Context, p *Place) (*Running, error) {
	paths, err := findAll("java", "javac", "jcmd")
	if err != nil {
		return nil, err
	}
	source, err := p.write("Work.java")
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx, paths[1], "-d", p.Dir, source); err != nil {
		return nil, err
	}
	main, err := p.start(ctx, paths[0], "-XX:+PreserveFramePointer", "-Xmx256m", "-cp", p.Dir, "Work")
	if err != nil {
		return nil, err
	}
	r := alone(paths[0], main)
	mapped := func(ctx context.Context, d time.Duration) error {
		if err := wait(ctx, main, d); err != nil {
			return err
		}
		return p.run(ctx, paths[2], pidText(main), "Compiler.perfmap")
	}
	if err := mapped(ctx, warmUp); err != nil {
		return nil, joinStop(err, r)
	}
	r.load = func(ctx context.Context, d time.Duration) error {
		end := time.Now().Add(d)
		for left := d; left > 0; left = time.Until(end) {
			if err := mapped(ctx, min(left, mapInterval)); err != nil {
				return err
			}
		}
		return nil
	}
	return r, nil
}

// startGojq runs a static, stripped Go binary: a jq that has been given an endless program.
func startGojq(ctx context.Context, p *Place) (*Running, error) {
	gojq, err := find("gojq")
	if err != nil {
		return nil, err
	}
	script, err := p.write("work.jq")
	if err != nil {
		return nil, err
	}
	main, err := p.start(ctx, gojq, "-n", "-f", script)
	if err != nil {
		return nil, err
	}
	return alone(gojq, main), nil
}
