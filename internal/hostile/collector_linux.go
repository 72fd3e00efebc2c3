// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/procfs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/prom"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

const configuration = `
receivers:
  ebpf:
    targets: {include: [{exe: %q}]}
    observe:
      on_cpu: {period: 9ms, report_interval: %s}
      network: {protocols: [http], role: server}
    limits: {memory_mib: %d, cpu_percent: %g}
exporters:
  file: {path: %q, flush_interval: 100ms}
  prometheus: {endpoint: "127.0.0.1:%d"}
service:
  telemetry:
    metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %d}}}}]}
  pipelines:
    profiles: {receivers: [ebpf], exporters: [file]}
    metrics: {receivers: [ebpf], exporters: [prometheus]}
`

// collector is the built Collector under attack.
type collector struct {
	cmd *exec.Cmd
	log *os.File
	// own is where it serves its own metrics, exported where it serves those of the receiver.
	own, exported string
	ended         chan error
	read          chan struct{} // closed when all that it has written was read
	// from is the pipe's end that is read, to the one that is open as long as there may come more.
	from, to *os.File
}

// startCollector starts it; line is called with each message that it writes, from one goroutine.
func startCollector(s *stage, line func([]byte)) (*collector, error) {
	o := s.options
	out := filepath.Join(s.dir, "profiles")
	if err := unix.Mkfifo(out, 0o600); err != nil {
		return nil, fmt.Errorf("creating a pipe for the profiles: %w", err)
	}
	to, err := os.OpenFile(out, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	from, err := os.Open(out)
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	closeBoth := func() error { return errors.Join(from.Close(), to.Close()) }
	own, errOwn := freeport.Get()
	exported, err := freeport.Get()
	if err := errors.Join(errOwn, err); err != nil {
		return nil, errors.Join(err, closeBoth())
	}
	path := filepath.Join(s.dir, "collector.yaml")
	text := fmt.Sprintf(configuration, s.program, o.interval, o.memory, o.cpu, out, exported, own)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, closeBoth())
	}
	c := &collector{
		cmd: exec.Command(o.binary, "--config", path),
		own: fmt.Sprintf("http://127.0.0.1:%d/metrics", own), exported: fmt.Sprintf("http://127.0.0.1:%d/metrics", exported),
		ended: make(chan error, 1), read: make(chan struct{}), from: from, to: to,
	}
	if c.log, err = os.Create(o.log); err != nil {
		return nil, errors.Join(err, closeBoth())
	}
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the Collector: %w", err), closeBoth(), c.log.Close())
	}
	go func() { c.ended <- c.cmd.Wait() }()
	go c.follow(line)
	return c, nil
}

// follow reads what the Collector writes until nothing more can come.
func (c *collector) follow(line func([]byte)) {
	defer close(c.read)
	in := bufio.NewReaderSize(c.from, 1<<20)
	for {
		b, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		line(b)
	}
}

// ready waits until the receiver observes.
func (c *collector) ready(ctx context.Context) error {
	for end := time.Now().Add(startWithin); ; {
		text, err := os.ReadFile(c.log.Name())
		switch {
		case err != nil:
			return err
		case strings.Contains(string(text), "The receiver has started"):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("waiting for the Collector: it is not ready after a minute, see %s", c.log.Name())
		}
		if err := c.wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// wait waits for a time; it returns an error if the Collector or ctx ended.
func (c *collector) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-c.ended:
		c.ended <- err
		return fmt.Errorf("the Collector has ended, see %s: %w", c.log.Name(), errors.Join(err, errEnded))
	case <-time.After(d):
		return nil
	}
}

var errEnded = errors.New("before it was asked to")

// stop ends it with SIGTERM and returns how long that took.
func (c *collector) stop(limit time.Duration) (time.Duration, error) {
	began := time.Now()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case err := <-c.ended:
		took := time.Since(began)
		return took, errors.Join(err, c.close())
	case <-time.After(limit):
		_ = c.cmd.Process.Kill() // it is the verdict that counts
		<-c.ended
		return time.Since(began), errors.Join(fmt.Errorf("the Collector did not end within %s of SIGTERM", limit), c.close())
	}
}

func (c *collector) close() error {
	err := c.to.Close()
	<-c.read
	return errors.Join(err, c.from.Close(), c.log.Close())
}

// cpu is the CPU time that it has used.
func (c *collector) cpu() (time.Duration, error) {
	return procfs.FS("/proc").CPUTime(c.cmd.Process.Pid)
}

// self reads its own metrics.
func (c *collector) self(ctx context.Context) (prom.Metrics, error) {
	return scrape(ctx, c.own, "otelcol_ebpf_")
}

// requests reads the metrics of requests that the receiver has exported.
func (c *collector) requests(ctx context.Context) (prom.Metrics, error) {
	return scrape(ctx, c.exported, "http_")
}

func scrape(ctx context.Context, url, prefix string) (prom.Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return prom.Parse(answer.Body, prefix)
}
