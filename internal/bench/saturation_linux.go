// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

const (
	// saturationTime is how long a client asks as fast as it is answered. It is not wrk, whose quantiles are of a model: it
	// adds what requests would have waited that it has not sent.
	saturationTime = 3 * time.Second
	// smallBuffer is the least that network takes: with it something is lost.
	smallBuffer = 64 << 10
	// saturationJournal holds all requests of some seconds: durations of each are wanted.
	saturationJournal = 512 << 20
	// takenEvery is how often the exported data is taken.
	takenEvery = 100 * time.Millisecond
	// handedOver is how long after a transfer the observation has exported it.
	handedOver = 300 * time.Millisecond
)

// saturation compares the exported requests of a client at full speed with the client's own account, with a ring buffer that is large
// enough and with one that is not.
func (b *bench) saturation(ctx context.Context, server *workload.Web, load *workload.Steady) error {
	for _, buffer := range []uint32{requestBuffer, smallBuffer} {
		progress("requests: a client at full speed, observed itself, with a ring buffer of %d KiB", buffer>>10)
		result, err := b.saturate(ctx, server, load, buffer)
		if err != nil {
			return err
		}
		b.report.Saturation = append(b.report.Saturation, result)
	}
	return nil
}

func (b *bench) saturate(ctx context.Context, server *workload.Web, load *workload.Steady, buffer uint32) (s report.Saturation, err error) {
	s = report.Saturation{Buffer: buffer}
	config := requestConfig(buffer, requests.AllRequests)
	config.Journal.Bytes = saturationJournal
	w, err := startNetwork(config, map[int]lifecycle.Scope{server.PID(): lifecycle.ScopeNone})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	client, err := load.Ask(ctx, workload.Load{URL: server.URL, Connections: workload.WebConnections, For: saturationTime})
	if err != nil {
		return s, err
	}
	took, err := w.takeUntil(client.Process)
	asked, failed := client.Result()
	if err := errors.Join(err, failed); err != nil {
		return s, err
	}
	found := w.observer.Report(time.Now())
	if err := w.observer.Drain(); err != nil { // reads what was lost
		return s, err
	}
	took = appendDurations(took, w.observer.Logs(), client.PID())
	slices.Sort(took)
	s.Answered, s.Elapsed = asked.Answered, asked.Elapsed
	s.Client, s.Exported, s.Timed = report.Quantiles(asked.Took), report.Quantiles(workload.QuantilesOf(took)), uint64(len(took))
	s.Counted = exportedOf(found, clientDurations, uint32(client.PID()))
	s.Lost, s.Incomplete = lossesOf(w)
	return s, nil
}

// takeUntil observes a client until its end, and a little longer, and returns how long its requests took.
func (w *watcher) takeUntil(client *workload.Process) (took []time.Duration, err error) {
	if err := w.tracker.Decide(uint32(client.PID()), lifecycle.ScopeNetwork); err != nil {
		return nil, fmt.Errorf("putting the client into scope: %w", err)
	}
	takes, drains, reports := time.NewTicker(takenEvery), time.NewTicker(w.observer.DrainInterval()), time.NewTicker(networkReport)
	defer takes.Stop()
	defer drains.Stop()
	defer reports.Stop()
	ended, over := client.Ended(), (<-chan time.Time)(nil)
	for {
		select {
		case <-takes.C:
			took = appendDurations(took, w.observer.Logs(), client.PID())
		case <-drains.C:
			if err := w.observer.Drain(); err != nil {
				return took, err
			}
		case at := <-reports.C:
			w.observer.Report(at)
		case <-ended:
			ended, over = nil, time.After(handedOver)
		case <-over:
			return took, nil
		}
	}
}

// appendDurations appends the durations of a process's requests that are exported individually.
func appendDurations(to []time.Duration, logs []*model.Logs, pid int) []time.Duration {
	for _, of := range logs {
		if of.Process.ID.PID != uint32(pid) {
			continue
		}
		for i := range of.Logs {
			for _, a := range of.Logs[i].Attributes {
				if a.Key == "ebpf.request.duration" {
					to = append(to, seconds(math.Float64frombits(uint64(a.Value.Int))))
				}
			}
		}
	}
	return to
}
