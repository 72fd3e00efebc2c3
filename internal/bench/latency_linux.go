// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/collector"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

const (
	// latencyRate is how many requests per second each server is asked for: a part of what it can do with breakpoints.
	latencyRate, latencyTime = 2000, 1500 * time.Millisecond
	// latencyTurns is how often each state is measured, in turns with the other.
	latencyTurns = 5
	// latencySettle is how long the Collector runs before: the libraries of a process are found and attached to concurrently.
	latencySettle = 2 * time.Second
)

// transport is a server that is asked.
type transport struct {
	name, url string
	key       requestsKey
}

// latency measures how much longer clients wait while the Collector observes the server: with plaintext, and through TLS of OpenSSL and of
// Go.
func (b *bench) latency(ctx context.Context, server *workload.Web, load *workload.Steady) (err error) {
	inGo, err := load.Serve(ctx, b.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inGo.Stop()) }()
	transports := []transport{
		{"plain, nginx", server.URL, requestsKey{server.PID(), "http"}},
		{"OpenSSL, nginx", server.SecureURL, requestsKey{server.PID(), "https"}},
		{"Go TLS, net/http", inGo.URL, requestsKey{inGo.PID(), "https"}},
	}
	b.report.Latency = make([]report.Latency, len(transports))
	for i, t := range transports {
		b.report.Latency[i] = report.Latency{Transport: t.name, Rate: latencyRate}
	}
	for n := range latencyTurns {
		progress("requests: latency, turn %d of %d", n+1, latencyTurns)
		turns := make([]report.LatencyTurn, len(transports))
		states := []func() error{
			func() error { return b.latencyWithout(ctx, load, transports, turns) },
			func() error { return b.latencyWith(ctx, load, transports, turns) },
		}
		for i := range states {
			if err := states[(i+n)%len(states)](); err != nil { // none is always the first
				return err
			}
		}
		for i, turn := range turns {
			b.report.Latency[i].Turns = append(b.report.Latency[i].Turns, turn)
		}
	}
	return nil
}

func (b *bench) latencyWithout(ctx context.Context, load *workload.Steady, transports []transport, turns []report.LatencyTurn) error {
	for i, t := range transports {
		asked, err := b.ask(ctx, load, t.url, latencyRate, latencyTime)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		turns[i].Without = report.Quantiles(asked.Took)
	}
	return nil
}

func (b *bench) latencyWith(ctx context.Context, load *workload.Steady, transports []transport, turns []report.LatencyTurn) error {
	var pids []int
	for _, t := range transports {
		pids = append(pids, t.key.pid)
	}
	counts, err := b.withRequests(ctx, "slow_or_error", slices.Compact(pids), func(subject *collector.Collector) error {
		if err := subject.Sleep(ctx, latencySettle); err != nil {
			return err
		}
		for i, t := range transports {
			asked, err := b.ask(ctx, load, t.url, latencyRate, latencyTime)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			turns[i].With, turns[i].Answered = report.Quantiles(asked.Took), asked.Answered
		}
		return subject.Sleep(ctx, handedOver) // the rest is exported when it ends
	})
	for i, t := range transports {
		turns[i].Counted = counts[t.key]
		if err == nil && turns[i].Counted < turns[i].Answered/2 {
			err = fmt.Errorf("%s: the receiver exported %d of %d requests: it did not observe them all", t.name, turns[i].Counted, turns[i].Answered)
		}
	}
	return err
}
