// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/collector"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

const (
	// requestTurns is how often each state is measured, in turns with the others.
	requestTurns = 12
	// requestBuffer, slowRequest and topRequests are defaults of network: buffer, requests::slow and requests::top;
	// journalBytes is a share of the default of limits::memory_mib.
	requestBuffer = 8 << 20
	slowRequest   = 500 * time.Millisecond
	topRequests   = 10
	journalBytes  = 16 << 20
	// Metrics of requests, by the side that reports them.
	serverDurations = "http.server.request.duration"
	clientDurations = "http.client.request.duration"
)

// requests measures what requests cost the server that is asked, the Collector and the client.
func (b *bench) requests(ctx context.Context) (err error) {
	server, err := workload.StartSecureWeb(ctx, b.dir, b.nice)
	if errors.Is(err, workload.ErrAbsent) {
		b.note("the part requests was left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	load, err := workload.NewSteady(ctx, b.dir, b.module, b.nice)
	if err != nil {
		return err
	}
	return errors.Join(b.requestCost(ctx, server), b.steady(ctx, server, load), b.saturation(ctx, server, load), b.latency(ctx, server, load))
}

// requestCost measures what requests add to nginx's CPU time, as the part network does.
func (b *bench) requestCost(ctx context.Context, server *workload.Web) (err error) {
	progress("requests: nginx and wrk, all states in %d turns of %s", requestTurns, networkTime)
	watch := func(config network.Config) func() (*watcher, error) {
		return func() (*watcher, error) { return watchNginx(config, server.PID(), lifecycle.ScopeNetwork) }
	}
	b.report.Requests, err = b.inTurns(ctx, server, requestTurns, []networkState{
		{report.NetworkBare, func() (*watcher, error) { return &watcher{}, nil }},
		{report.RequestsNone, watch(networkConfig())},
		// In addition to both that it is compared with.
		{report.RequestsHeaders, watch(requestConfig(requestBuffer, requests.SlowOrError))},
		{report.MonitorsAll, func() (*watcher, error) {
			return watchAnswers(server.PID(), network.Wanted{Counted: []string{"/"}}, true)
		}},
		{report.MonitorsOther, func() (*watcher, error) {
			return watchAnswers(server.PID(), network.Wanted{Counted: []string{"/other"}}, false)
		}},
		{report.MonitorsReported, func() (*watcher, error) {
			return watchAnswers(server.PID(), network.Wanted{Reported: []string{"/"}}, true)
		}},
		{report.NetworkEmpty, func() (*watcher, error) { return emptyTracepoints(bothEnds(network.Tracepoints())) }},
	})
	return err
}

// Shares of the default of limits.memory_mib that monitors of requests have, and their buffer: those of the engine.
const monitorBytes, monitorSockets, monitorBuffer = 4 << 20, 16 << 20, 2 << 20

// watchAnswers observes nginx as policies with monitors of such requests do; all: these are all requests that it gets.
func watchAnswers(pid int, wanted network.Wanted, all bool) (_ *watcher, err error) {
	paths, err := network.NewPaths()
	if err != nil {
		return nil, err
	}
	answers := &atomic.Uint64{}
	config := networkConfig()
	config.Only, config.MapBytes, config.SocketBytes = network.Server, monitorBytes, monitorSockets
	config.Requests, config.Protocols, config.BufferBytes = true, []network.Protocol{network.HTTP, network.HTTP2}, monitorBuffer
	config.Paths, config.OnlyAnswered = paths, true
	config.Answered = func(a network.Answer) {
		if a.Subject.PID == uint32(pid) {
			answers.Add(1)
		}
	}
	if err := paths.Set(uint32(pid), wanted); err != nil {
		return nil, errors.Join(err, paths.Close())
	}
	w, err := watchNginx(config, pid, lifecycle.ScopeNetwork)
	if err != nil {
		return nil, errors.Join(err, paths.Close())
	}
	w.requests, w.inside, w.answers, w.wanted = false, false, answers, all // operations are not counted
	w.takeCounted = func() error {
		now, _, err := kernel.Monotonic()
		if err != nil {
			return err
		}
		return paths.Take(now/int64(time.Second), func(c network.Count) {
			if c.Subject.PID == uint32(pid) {
				answers.Add(c.Requests)
			}
		})
	}
	w.closers = append([]io.Closer{paths}, w.closers...) // closed last
	return w, nil
}

// requestConfig is network with requests.
func requestConfig(buffer uint32, which requests.Which) network.Config {
	config := networkConfig()
	config.Requests, config.BufferBytes = true, buffer
	config.Journal = requests.JournalConfig{
		Which: which, Slow: slowRequest, Top: topRequests, Redact: requests.Redaction{Query: true}, Bytes: journalBytes,
	}
	return config
}

// exportedOf counts the exported requests by a metric of durations; for pid 0 those of all
// processes together.
func exportedOf(found model.Findings, metric string, pid uint32) uint64 {
	found.Metrics = slices.DeleteFunc(slices.Clone(found.Metrics), func(m *model.Metrics) bool {
		return pid != 0 && (m.Process == nil || m.Process.ID.PID != pid)
	})
	return uint64(sumOf(found, metric, func(p model.Point) (int64, bool) { return int64(p.Histogram.Count), true }))
}

const (
	// steadyRate is how many requests per second nginx is asked for, steadyTime how long.
	steadyRate, steadyTime = 20_000, 10 * time.Second
	// steadySettle is how long the Collector runs before: what a start costs is not what a request costs.
	steadySettle = 3 * time.Second
	// reported is how long after the last request it has been exported: the default of report_interval, a drain, and some more.
	reported = networkReport + 2*time.Second
)

// steadyStates are what is exported of requests, and requests::log for it.
var steadyStates = []struct{ exported, log string }{{report.SteadyMetrics, "slow_or_error"}, {report.SteadyLogs, "all"}}

// steady measures the Collector while nginx is asked at a constant rate.
func (b *bench) steady(ctx context.Context, server *workload.Web, load *workload.Steady) error {
	for _, of := range steadyStates {
		progress("requests: the Collector, %s, at %d/s for %s", of.exported, steadyRate, steadyTime)
		result := report.Steady{Signals: of.exported, Rate: steadyRate}
		counts, err := b.withRequests(ctx, of.log, []int{server.PID()}, func(subject *collector.Collector) error {
			if err := subject.Sleep(ctx, steadySettle); err != nil {
				return err
			}
			return b.steadyRound(ctx, subject, server, load, &result)
		})
		if err != nil {
			return err
		}
		result.Counted = counts[requestsKey{server.PID(), "http"}]
		b.report.Steady = append(b.report.Steady, result)
	}
	return nil
}

func (b *bench) steadyRound(ctx context.Context, subject *collector.Collector, server *workload.Web, load *workload.Steady, to *report.Steady) error {
	before, err := atRest(subject)
	if err != nil {
		return err
	}
	asked, err := b.ask(ctx, load, server.URL, steadyRate, steadyTime)
	if err != nil {
		return err
	}
	to.Answered = asked.Answered
	if err := subject.Sleep(ctx, reported); err != nil {
		return err
	}
	used, err := subject.CPUTime() // before it is asked for its metrics again
	if err != nil {
		return err
	}
	after, err := atRest(subject)
	if err != nil {
		return err
	}
	to.CPU, to.Engine = used-before.used, after.engine()-before.engine()
	to.Lost, to.Incomplete = losses(after.metrics)
	maps.DeleteFunc(to.Lost, func(reason string, _ float64) bool { return strings.HasPrefix(reason, othersInTLS) })
	return nil
}

// othersInTLS is the loss of TLS connections of which nothing was seen. nginx gets plaintext requests, so these connections belong to other
// processes and were discovered before those were known to be out of scope.
const othersInTLS = "network/tls_opaque"

// atRest samples the Collector's metrics, and then its CPU time.
func atRest(subject *collector.Collector) (m moment, err error) {
	if m.metrics, err = subject.Metrics(); err != nil {
		return m, err
	}
	m.used, err = subject.CPUTime()
	return m, err
}

func (b *bench) ask(ctx context.Context, load *workload.Steady, url string, rate int, during time.Duration) (workload.Asked, error) {
	asking, err := load.Ask(ctx, workload.Load{URL: url, Rate: rate, Connections: workload.WebConnections, For: during})
	if err != nil {
		return workload.Asked{}, err
	}
	return asking.Result()
}

// withRequests runs a Collector that observes the requests of some processes, and returns how many it has exported.
func (b *bench) withRequests(ctx context.Context, log string, pids []int, measure func(*collector.Collector) error) (map[requestsKey]uint64, error) {
	config, err := b.requestCollector(log, pids)
	if err != nil {
		return nil, err
	}
	err = b.with(ctx, config, func(subject *collector.Collector) error {
		if err := subject.Attached(ctx, partNetwork); err != nil {
			return err
		}
		return measure(subject)
	})
	if err != nil {
		return nil, err
	}
	return countRequests(config.File)
}

// requestCollector is the configuration of a Collector that observes the requests of some processes, with a fresh file.
func (b *bench) requestCollector(log string, pids []int) (collector.Config, error) {
	file, err := os.CreateTemp(b.dir, "requests-*.json")
	if err != nil {
		return collector.Config{}, fmt.Errorf("creating a file for exported requests: %w", err)
	}
	receiver := &collector.Receiver{Network: &collector.Network{Capture: "headers", Log: log}, CPUPercent: unlimited}
	for _, pid := range pids {
		exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		if err != nil {
			return collector.Config{}, errors.Join(fmt.Errorf("looking for the program of process %d: %w", pid, err), file.Close())
		}
		receiver.Include = append(receiver.Include, collector.Selector{Exe: exe, PID: pid})
	}
	return collector.Config{Receiver: receiver, File: file.Name()}, file.Close()
}

// profileRequests writes Go profiles of the Collector while nginx is asked at a constant rate.
func (b *bench) profileRequests(ctx context.Context) (err error) {
	server, err := workload.StartWeb(ctx, b.dir, b.nice)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	load, err := workload.NewSteady(ctx, b.dir, b.module, b.nice)
	if err != nil {
		return err
	}
	for _, state := range steadyStates {
		if err := b.profileSteady(ctx, server, load, state.log); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) profileSteady(ctx context.Context, server *workload.Web, load *workload.Steady, log string) error {
	config, err := b.requestCollector(log, []int{server.PID()})
	if err != nil {
		return err
	}
	if config.PprofPort, err = freeport.Get(); err != nil {
		return err
	}
	return b.with(ctx, config, func(subject *collector.Collector) error {
		if err := subject.Attached(ctx, partNetwork); err != nil {
			return err
		}
		asking, err := load.Ask(ctx, workload.Load{URL: server.URL, Rate: steadyRate, Connections: workload.WebConnections, For: steadyTime})
		if err != nil {
			return err
		}
		err = b.fetchProfiles(ctx, config.PprofPort, []goProfile{
			{"cpu-requests-" + log + ".pb.gz", "profile?seconds=", steadyTime - time.Second},
			{"allocations-requests-" + log + ".pb.gz", "allocs?gc=", time.Second},
		})
		_, failed := asking.Result()
		return errors.Join(err, failed)
	})
}
