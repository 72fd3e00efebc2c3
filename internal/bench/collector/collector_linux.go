// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/procfs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/prom"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

const (
	proc = procfs.FS("/proc")
	// readyTimeout bounds the time until the Collector serves its metrics.
	readyTimeout = 20 * time.Second
	// drainPoll is how often the count of events is read to see the moment at which it changes, drainTimeout how long.
	drainPoll    = 25 * time.Millisecond
	drainTimeout = 5 * time.Second
	// drainLength is more than a drain takes and less than the time between two.
	drainLength = 100 * time.Millisecond
)

// Collector is a run of the distribution.
type Collector struct {
	process *workload.Process
	watch   *watch
	metrics string
	client  http.Client
	log     *os.File
}

// Start starts binary. Files are written to dir.
func Start(ctx context.Context, binary, dir string, config Config, nice int) (*Collector, error) {
	var err error
	if config.MetricsPort, err = freeport.Get(); err != nil {
		return nil, err
	}
	if config.OTLPPort, err = freeport.Get(); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "collector.yaml")
	text, err := config.YAML()
	if err != nil {
		return nil, fmt.Errorf("writing the Collector's configuration: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("writing the Collector's configuration: %w", err)
	}
	c := &Collector{
		metrics: "http://127.0.0.1:" + strconv.Itoa(config.MetricsPort) + "/metrics",
		client:  http.Client{Timeout: readyTimeout},
	}
	if c.log, err = os.Create(filepath.Join(dir, "collector.log")); err != nil {
		return nil, fmt.Errorf("creating the Collector's log: %w", err)
	}
	probe, err := nextProgram()
	if err != nil {
		return nil, errors.Join(err, c.log.Close())
	}
	c.process, err = workload.Start(ctx, workload.Command{
		Name: "the Collector", Path: binary, Args: []string{"--config", path}, CPU: workload.AnyCPU, Nice: nice, Output: c.log,
	})
	if err != nil {
		return nil, errors.Join(err, c.log.Close())
	}
	c.watch = startWatch(c.process, probe, config.Receiver != nil && !config.OfNetwork())
	if err := c.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the Collector (its log is %s): %w", c.log.Name(), err), c.Stop())
	}
	return c, nil
}

func (c *Collector) ready(ctx context.Context) error {
	deadline := time.Now().Add(readyTimeout)
	for {
		metrics, err := c.Metrics()
		if err == nil && starting(metrics) {
			err = errors.New("its receiver has not started")
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		if err := c.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// starting reports whether the receiver still loads its programs.
func starting(metrics prom.Metrics) bool {
	return slices.ContainsFunc(metrics["otelcol_ebpf_degraded"], func(s prom.Series) bool { return s.Labels["capability"] == "starting" && s.Value > 0 })
}

// Sleep waits; it returns an error if the Collector or ctx ended meanwhile.
func (c *Collector) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.process.Ended():
		_, err := c.process.Wait()
		return errors.Join(fmt.Errorf("running the Collector: it has ended, see %s", c.log.Name()), err)
	case <-time.After(d):
		return nil
	}
}

// Started is just before the Collector was forked.
func (c *Collector) Started() time.Time { return c.process.Started() }

// Metrics scrapes the receiver's own metrics.
func (c *Collector) Metrics() (prom.Metrics, error) {
	response, err := c.client.Get(c.metrics)
	if err != nil {
		return nil, fmt.Errorf("scraping the Collector: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scraping the Collector: HTTP status %s", response.Status)
	}
	return prom.Parse(response.Body, "otelcol_ebpf_")
}

// Attached waits until the programs of a kind of observation are attached.
func (c *Collector) Attached(ctx context.Context, kind string) error {
	deadline := time.Now().Add(readyTimeout)
	for time.Now().Before(deadline) {
		metrics, err := c.Metrics()
		if err != nil {
			return err
		}
		if metrics.Sum("otelcol_ebpf_probes_attached", "probe", kind) > 0 {
			return nil
		}
		if err := c.Sleep(ctx, drainPoll); err != nil {
			return err
		}
	}
	return fmt.Errorf("waiting for the Collector: no program of %s is attached after %s, see %s", kind, readyTimeout, c.log.Name())
}

// AtDrain waits for the moment at which the receiver drains the kernel's tables, calls sample at once and returns the metrics of that
// drain: between drains the count of events is behind the kernel by up to a second.
func (c *Collector) AtDrain(ctx context.Context, look func() error) (prom.Metrics, error) {
	first, err := c.Metrics()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(drainTimeout)
	for time.Now().Before(deadline) {
		if err := c.Sleep(ctx, drainPoll); err != nil {
			return nil, err
		}
		next, err := c.Metrics()
		if err != nil {
			return nil, err
		}
		if events(next) == events(first) {
			continue
		}
		if err := look(); err != nil {
			return nil, err
		}
		// The tables of the CPUs are counted one after the other: let it come to its end.
		if err := c.Sleep(ctx, drainLength); err != nil {
			return nil, err
		}
		return c.Metrics()
	}
	return nil, fmt.Errorf("waiting for a drain: no new samples in %s", drainTimeout)
}

func events(metrics prom.Metrics) float64 {
	return metrics.Sum("otelcol_ebpf_events", "probe", "on_cpu")
}

// CPUTime is what the Collector has used so far.
func (c *Collector) CPUTime() (time.Duration, error) { return proc.CPUTime(c.process.PID()) }

// KernelMaps is what its BPF maps take now.
func (c *Collector) KernelMaps() (procfs.KernelMaps, error) { return proc.KernelMaps(c.process.PID()) }

// Watched is what was seen from outside so far.
func (c *Collector) Watched() Watched { return c.watch.result() }

// Stop ends the Collector with SIGTERM.
func (c *Collector) Stop() error {
	err := c.process.Stop()
	c.watch.wait()
	return errors.Join(err, c.log.Close())
}
