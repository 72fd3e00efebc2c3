// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/golog"
)

// progressEvery is how often the processes that run are printed.
const progressEvery = 30 * time.Second

// grace is how long a process may take to print its goroutines after its timeout.
const grace = 30 * time.Second

// result is how a process ended.
type result struct {
	*unit
	log  golog.Log
	err  error // of the process, nil if it exited with 0
	took time.Duration
	cpu  time.Duration
}

// runAll runs units as they come.
func (o *options) runAll(ctx context.Context, units <-chan *unit, r *report) {
	var wg sync.WaitGroup
	parallel := o.parallel
	if o.repeat > 1 {
		parallel = 1
	}
	for range parallel {
		wg.Go(func() {
			for u := range units {
				for range o.repeat {
					if ctx.Err() == nil {
						r.started(u)
						r.add(o.runUnit(ctx, u))
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		case <-time.After(progressEvery):
			r.progress()
		}
	}
}

// runUnit runs a test binary in the folder of its package, as go test does.
func (o *options) runUnit(ctx context.Context, u *unit) *result {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.timeout+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, u.binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout="+o.timeout.String(),
		"-test.run=^("+strings.Join(u.tests, "|")+")$")
	cmd.Dir = u.Dir
	cmd.Env = append(os.Environ(), "PWD="+u.Dir)
	// What a test leaves running must not keep the pipe open for ever.
	cmd.WaitDelay = grace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	res := &result{unit: u}
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	done := make(chan struct{})
	go func() {
		defer close(done)
		readLines(reader, res.log.Add)
	}()
	err := cmd.Run()
	_ = writer.Close() // never fails
	<-done
	res.err, res.took = err, time.Since(began)
	if s := cmd.ProcessState; s != nil {
		res.cpu = s.UserTime() + s.SystemTime()
	}
	return res
}

// marker begins each line of the testing package in -test.v=test2json, also where a test has printed no line feed before it.
const marker = 0x16

// readLines calls add for each line of a test's output.
func readLines(from io.Reader, add func(string)) {
	in := bufio.NewReaderSize(from, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		for part := range bytes.SplitSeq(bytes.TrimSuffix(line, []byte{'\n'}), []byte{marker}) {
			if len(part) > 0 {
				add(string(part))
			}
		}
		if err != nil {
			return // the end, or the pipe is closed
		}
	}
}

// failure returns what is wrong with a process other than a failed test, or "".
func (r *result) failure() string {
	var exit *exec.ExitError
	switch {
	case r.err == nil:
		return ""
	case r.log.Count(golog.Failed) > 0:
		return ""
	case errors.As(r.err, &exit):
		return fmt.Sprintf("%s: %v, and no test has failed", r.title(), r.err)
	}
	return fmt.Sprintf("%s: %v", r.title(), r.err)
}
