// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/procfs"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/prom"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

func series(value float64, labels ...string) prom.Series {
	s := prom.Series{Labels: map[string]string{}, Value: value}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

func TestFill(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(after time.Duration, idle, used time.Duration, events, engine float64) moment {
		return moment{
			at: began.Add(after), host: procfs.Idle{CPUs: 2, Idle: idle}, used: used,
			metrics: prom.Metrics{
				"otelcol_ebpf_events":          {series(events, "probe", "on_cpu"), series(77, "probe", "other")},
				"otelcol_ebpf_engine_cpu_time": {series(engine)},
				"otelcol_ebpf_probe_runs":      {series(events+1, "program", "on_cpu.sample")},
				"otelcol_ebpf_probe_cpu_time":  {series(0.5, "program", "on_cpu.sample")},
				"otelcol_ebpf_events_lost": {
					series(2, "probe", "on_cpu", "reason", "map_full", "outcome", "lost"),
					series(3, "probe", "on_cpu", "reason", "stack_cut", "outcome", "incomplete"),
				},
				"otelcol_ebpf_batches_dropped": {series(1, "reason", "refused", "signal", "profiles")},
			},
		}
	}
	to := &report.Busy{Period: 10 * time.Millisecond}
	fill(to, at(0, 10*time.Second, time.Second, 500, 0.1), at(10*time.Second, 14*time.Second, 2*time.Second, 1990, 0.4))
	require.Equal(t, 10*time.Second, to.Elapsed)
	require.Equal(t, 1500.0, to.Expected, "2 CPUs for 10 s, 4 s idle, 1 s the Collector's own")
	require.Equal(t, 1490.0, to.Got)
	require.Equal(t, 500.0, to.GotStartUp)
	require.Equal(t, uint64(1991), to.Runs)
	require.Equal(t, 500*time.Millisecond, to.Time)
	require.Equal(t, report.Split{StartUp: 100 * time.Millisecond, Steady: 300 * time.Millisecond}, to.Engine)
	require.Equal(t, map[string]float64{"on_cpu/map_full": 2, "batches/refused": 1}, to.Lost)
	require.Equal(t, map[string]float64{"on_cpu/stack_cut": 3}, to.Incomplete)
	require.Equal(t, 3.0, to.LostSum())
}

func TestWeigh(t *testing.T) {
	profile := func(pid uint32, values ...int64) *model.Profile {
		p := &model.Profile{
			Process: &model.Process{ID: model.ProcessID{PID: pid, StartTicks: 1}, ServiceName: "x"},
			Kind:    "on_cpu", SampleTypes: []model.ValueType{{Type: "samples", Unit: "count"}},
			PeriodType: model.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7,
		}
		for _, value := range values {
			p.Samples = append(p.Samples, model.Sample{ThreadID: pid, Values: []int64{value}, Frames: []*model.Frame{{Address: uint64(value)}}})
		}
		return p
	}
	path := filepath.Join(t.TempDir(), "profiles.json")
	file, err := os.Create(path)
	require.NoError(t, err)
	builder := pdata.NewBuilder("scope", "1")
	for _, interval := range [][]*model.Profile{{profile(7, 1, 2), profile(8, 10)}, {profile(7, 4)}} {
		for _, batch := range builder.Batches(interval, 100) {
			line, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(batch)
			require.NoError(t, err)
			_, err = file.Write(append(line, '\n'))
			require.NoError(t, err)
		}
	}
	require.NoError(t, file.Close())
	sums, err := weigh(path)
	require.NoError(t, err)
	require.Equal(t, map[int64]int64{7: 7, 8: 10}, sums)

	require.NoError(t, os.WriteFile(path, []byte("{}\n{\"resourceProfiles\": 1}\n"), 0o600))
	_, err = weigh(path)
	require.ErrorContains(t, err, "line 2")
}

func TestEach(t *testing.T) {
	require.Equal(t, 5*time.Millisecond, each(time.Second, 200))
	require.Zero(t, each(time.Second, 0))
}

func TestDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(path, []byte("abc"), 0o600))
	got, err := digest(path)
	require.NoError(t, err)
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", got)
	_, err = digest(path + ".gone")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPlausible(t *testing.T) {
	require.NoError(t, plausible(1600, 8*time.Second, 10*time.Millisecond, 2))
	require.NoError(t, plausible(20, 8*time.Second, 10*time.Millisecond, 2), "a host that is idle")
	require.ErrorContains(t, plausible(15963, 8*time.Second, 10*time.Millisecond, 2), "gives at most 1602")
}

func TestBothEnds(t *testing.T) {
	at := func(names ...string) (list []network.Tracepoint) {
		for _, name := range names {
			list = append(list, network.Tracepoint{Group: "syscalls", Name: name})
		}
		return list
	}
	require.Equal(t, at("sys_enter_read", "sys_exit_read", "sys_enter_recvmsg", "sys_exit_recvmsg"),
		bothEnds(append(at("sys_enter_read", "sys_enter_recvmsg", "sys_exit_recvmsg"), network.Tracepoint{Group: "sock", Name: "inet_sock_set_state"})))
	require.Equal(t, len(bothEnds(network.Tracepoints())), len(bothEnds(bothEnds(network.Tracepoints()))))
}

func TestSumOf(t *testing.T) {
	opened := &model.Descriptor{Name: "ebpf.network.connections"}
	of := func(state string, n int64) model.Point {
		return model.Point{Attributes: []model.Attribute{model.Text("network.connection.state", state)}, Int: n}
	}
	found := model.Findings{Metrics: []*model.Metrics{
		{Process: &model.Process{ID: model.ProcessID{PID: 7}}, Metrics: []model.Metric{{Descriptor: opened, Points: []model.Point{of("established", 3), of("listen", 4)}}}},
		{Metrics: []model.Metric{{Descriptor: &model.Descriptor{Name: "other"}, Points: []model.Point{of("established", 9)}},
			{Descriptor: opened, Points: []model.Point{of("established", 2)}}}},
	}}
	established := func(p model.Point) (int64, bool) { return p.Int, hasText(p, "network.connection.state", "established") }
	require.EqualValues(t, 5, sumOf(found, "ebpf.network.connections", established))
	require.EqualValues(t, 3, sumOf(ofLoad(found, map[int]lifecycle.Scope{7: lifecycle.ScopeNone}), "ebpf.network.connections", established))
	require.Len(t, found.Metrics, 2, "as it was")
}

func TestCountRequests(t *testing.T) {
	line := func(counts map[requestsKey]uint64) []byte {
		metrics := pmetric.NewMetrics()
		for key, count := range counts {
			of := metrics.ResourceMetrics().AppendEmpty()
			of.Resource().Attributes().PutInt("process.pid", int64(key.pid))
			all := of.ScopeMetrics().AppendEmpty().Metrics()
			other := all.AppendEmpty()
			other.SetName("http.server.response.body.size")
			other.SetEmptyHistogram().DataPoints().AppendEmpty().SetCount(77)
			metric := all.AppendEmpty()
			metric.SetName(serverDurations)
			points := metric.SetEmptyHistogram().DataPoints()
			for range 2 { // of two routes
				point := points.AppendEmpty()
				point.Attributes().PutStr("url.scheme", key.scheme)
				point.SetCount(count)
			}
		}
		text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
		require.NoError(t, err)
		return append(text, '\n')
	}
	plain, secure, other := requestsKey{7, "http"}, requestsKey{7, "https"}, requestsKey{8, "https"}
	path := filepath.Join(t.TempDir(), "metrics.json")
	text := append(line(map[requestsKey]uint64{plain: 1, other: 5}), line(map[requestsKey]uint64{plain: 10, secure: 3})...)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	counts, err := countRequests(path)
	require.NoError(t, err)
	require.Equal(t, map[requestsKey]uint64{plain: 20, secure: 6, other: 10}, counts, "of each the last line that has it")

	require.NoError(t, os.WriteFile(path, []byte("{}\n{\"resourceMetrics\": 1}\n"), 0o600))
	_, err = countRequests(path)
	require.ErrorContains(t, err, "line 2")
	_, err = countRequests(path + ".gone")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDurationsOfOneProcess(t *testing.T) {
	of := func(pid uint32, seconds ...float64) *model.Logs {
		logs := &model.Logs{Process: &model.Process{ID: model.ProcessID{PID: pid}}}
		for _, s := range seconds {
			logs.Logs = append(logs.Logs, model.Log{Attributes: []model.Attribute{model.Text("url.path", "/"), model.Float("ebpf.request.duration", s)}})
		}
		return logs
	}
	got := appendDurations(nil, []*model.Logs{of(7, 0.5, 0.001), of(8, 9), of(7, 2)}, 7)
	require.Equal(t, []time.Duration{500 * time.Millisecond, time.Millisecond, 2 * time.Second}, got)
}

// The parts of the benchmark need privileges to start but not to compile: they must not be found broken when the benchmark is run.
func TestNetworkIsWatched(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	for _, config := range []network.Config{networkConfig(), requestConfig(requestBuffer, requests.AllRequests)} {
		w, err := startNetwork(config, map[int]lifecycle.Scope{os.Getpid(): lifecycle.ScopeNetwork})
		require.NoError(t, err)
		require.NoError(t, w.observer.Drain())
		w.observer.Logs()
		w.observer.Report(time.Now())
		require.NoError(t, w.end())
	}
}
