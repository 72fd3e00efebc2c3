// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

const (
	// openPairs open openEach connections each; a process may mostly have 20,000 files.
	openPairs, openEach = 8, 12500
	// churners open and close connections for churnTime.
	churners  = 2
	churnTime = 4 * time.Second
	// reportsTimed is how many reports are timed.
	reportsTimed = 5
)

// connections measures what network takes for many connections.
func (b *bench) connections(ctx context.Context) error {
	progress("connections: %d open ones, then short ones for twice %s", openPairs*openEach, churnTime)
	err := errors.Join(b.openConnections(ctx), b.shortConnections(ctx))
	if errors.Is(err, workload.ErrAbsent) {
		b.note("the part connections was left out: %v", err)
		return nil
	}
	return err
}

// openConnections observes connections that are open, first one of their ends and then both. They are opened before, so that the kernel's
// storage for each socket is measured apart from the sockets themselves.
func (b *bench) openConnections(ctx context.Context) (err error) {
	load, err := workload.OpenConnections(ctx, b.dir, b.nice, openPairs, openEach)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Stop()) }()
	opened, accepted, err := load.Run()
	if err != nil {
		return err
	}
	for _, ends := range []int{1, 2} {
		c := report.Connections{Ends: ends, Opened: opened, Accepted: accepted}
		if err := observeOpen(&c, load.PIDs); err != nil {
			return err
		}
		b.report.OpenConnections = append(b.report.OpenConnections, c)
	}
	return nil
}

// observeOpen observes the processes that accept or, with both ends, all.
func observeOpen(c *report.Connections, pids []int) (err error) {
	processes := map[int]lifecycle.Scope{}
	for i, pid := range pids {
		processes[pid] = lifecycle.ScopeNone
		if c.Ends == 2 || i%2 == 1 {
			processes[pid] = lifecycle.ScopeNetwork
		}
	}
	before, err := memoryBefore(pids)
	if err != nil {
		return err
	}
	w, err := startNetwork(networkConfig(), processes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	var last model.Findings
	for range reportsTimed {
		began := time.Now()
		if err := w.observer.Drain(); err != nil {
			return err
		}
		c.Drains = append(c.Drains, time.Since(began))
		began = time.Now()
		last = w.observer.Report(began)
		c.Reports = append(c.Reports, time.Since(began))
	}
	after, err := memoryNow()
	if err != nil {
		return err
	}
	c.Maps, c.Sockets, c.Anon = beyond(after.maps, before.maps), beyond(after.slab, before.slab), beyond(after.anon, before.anon)
	c.Counted = sumOf(ofLoad(last, processes), "ebpf.network.connections", func(p model.Point) (int64, bool) {
		return p.Int, hasText(p, "network.connection.state", "established")
	})
	c.Lost, c.Incomplete = lossesOf(w)
	return nil
}

// shortConnections observes connections that are closed at once, after the same without observation.
func (b *bench) shortConnections(ctx context.Context) (err error) {
	c := &report.Connections{Ends: 2, Elapsed: churnTime}
	if c.Bare, err = b.bareConnections(ctx); err != nil {
		return err
	}
	load, err := workload.ChurnConnections(ctx, b.dir, b.nice, churners, churnTime)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Stop()) }()
	processes := map[int]lifecycle.Scope{}
	for _, pid := range load.PIDs {
		processes[pid] = lifecycle.ScopeNetwork
	}
	before, err := memoryNow()
	if err != nil {
		return err
	}
	w, err := watchNetwork(networkConfig(), processes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	c.Opened, c.Accepted, err = load.Run()
	if err := errors.Join(err, w.stopDraining()); err != nil {
		return err
	}
	after, err := memoryNow()
	if err != nil {
		return err
	}
	c.Maps, c.Anon = beyond(after.maps, before.maps), beyond(after.anon, before.anon)
	began := time.Now()
	if err := w.observer.Drain(); err != nil {
		return err
	}
	c.Drains = append(c.Drains, time.Since(began))
	began = time.Now()
	last := w.observer.Report(began)
	c.Reports = append(c.Reports, time.Since(began))
	c.Counted = sumOf(ofLoad(last, processes), "ebpf.network.operation.duration", func(p model.Point) (int64, bool) {
		return int64(p.Histogram.Count), hasText(p, "ebpf.operation", "connect") || hasText(p, "ebpf.operation", "accept")
	})
	c.Lost, c.Incomplete = lossesOf(w)
	b.report.ShortConnections = c
	return nil
}

// bareConnections is how many such connections are opened without observation.
func (b *bench) bareConnections(ctx context.Context) (opened int, err error) {
	load, err := workload.ChurnConnections(ctx, b.dir, b.nice, churners, churnTime)
	if err != nil {
		return 0, err
	}
	opened, _, err = load.Run()
	return opened, errors.Join(err, load.Stop())
}

// memoryUse is what is taken at a moment, in bytes.
type memoryUse struct {
	maps uint64 // by this process's BPF maps
	anon uint64 // by this process
	slab uint64 // by the kernel's objects as those that are stored with sockets, of everybody
}

func memoryNow() (m memoryUse, err error) {
	debug.FreeOSMemory() // garbage is not what an observation takes
	maps, err := proc.KernelMaps(os.Getpid())
	if err != nil {
		return m, err
	}
	own, err := proc.Memory(os.Getpid())
	if err != nil {
		return m, err
	}
	slab, err := proc.StorageObjects()
	return memoryUse{maps: maps.Bytes, anon: own.Anon, slab: slab}, err
}

const (
	// givenBack is for how long the kernel gives no more memory back, until it is taken for done, and gaveBack what counts as some.
	givenBack, gaveBack = 2 * time.Second, 128 << 10
	// givingBack is how long is waited for that at most: under other load it may never be so.
	givingBack = 20 * time.Second
)

// memoryBefore is what is allocated before processes are observed. A program that lists the open files of these processes, as some do on
// each host now and then, has the kernel keep an inode for each until the process exits, and charge it to such objects: that is done
// before, so that it is not attributed to the observation. And the socket storage of an earlier observation is eventually freed.
func memoryBefore(pids []int) (memoryUse, error) {
	for _, pid := range pids {
		if err := proc.LookAtDescriptors(pid); err != nil {
			return memoryUse{}, err
		}
	}
	least, err := memoryNow()
	for began, since := time.Now(), time.Now(); err == nil && time.Since(since) < givenBack && time.Since(began) < givingBack; {
		time.Sleep(givenBack / 10)
		var now memoryUse
		if now, err = memoryNow(); now.slab+gaveBack < least.slab {
			least, since = now, time.Now()
		}
	}
	if err != nil {
		return memoryUse{}, err
	}
	return memoryNow()
}

func beyond(after, before uint64) uint64 { return max(after, before) - before }

// ofLoad is what was found of the load: others of the host may be counted until they are decided upon.
func ofLoad(found model.Findings, processes map[int]lifecycle.Scope) model.Findings {
	found.Metrics = slices.DeleteFunc(slices.Clone(found.Metrics), func(m *model.Metrics) bool {
		if m.Process == nil {
			return true
		}
		_, ours := processes[int(m.Process.ID.PID)]
		return !ours
	})
	return found
}

// sumOf sums points of a metric over all processes.
func sumOf(found model.Findings, metric string, value func(model.Point) (int64, bool)) int64 {
	var sum int64
	for _, process := range found.Metrics {
		for _, m := range process.Metrics {
			if m.Name != metric {
				continue
			}
			for _, p := range m.Points {
				if n, ok := value(p); ok {
					sum += n
				}
			}
		}
	}
	return sum
}

func hasText(p model.Point, key, value string) bool {
	for _, a := range p.Attributes {
		if a == model.Text(key, value) {
			return true
		}
	}
	return false
}

func lossesOf(w *watcher) (lost, incomplete map[string]uint64) {
	lost, incomplete = map[string]uint64{}, map[string]uint64{}
	for _, loss := range w.observer.Losses() {
		to := lost
		if loss.Incomplete {
			to = incomplete
		}
		if loss.Count > 0 {
			to[fmt.Sprintf("%s/%s", loss.Probe, loss.Reason)] = loss.Count
		}
	}
	return lost, incomplete
}
