// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// sampledBy is a configuration that samples requests that are slow, fail, are compressed or long, and exports all as spans.
func sampledBy() *Config {
	config := createDefaultConfig().(*Config)
	config.Limits.CPUPercent = 100 // it reads the requests of all connections
	options := networkOf(config)
	options.ReportInterval, options.Capture, options.CaptureLimit = time.Second, network.CaptureMessages, 128<<10
	options.Requests.Log, options.Requests.Top, options.Requests.Spans = network.LogNone, 0, true
	options.Requests.SamplesPerSecond = 1000 // none is left out, however late they come
	options.Requests.Samples = []network.SampleOptions{
		{URIRegex: "^/slow$", MinDuration: 300 * time.Millisecond}, {URIRegex: "^/quick$", MinDuration: time.Hour},
		{On5xx: true}, {URIRegex: "^/(packed|long)$"},
	}
	return config
}

// TestSamplesOfOthers checks that what curl asks Python's http.server for, and what that answers, comes out of a logs pipeline as samples
// where a rule says so, decoded, cut and redacted, and out of a traces pipeline as spans below the one that curl names.
func TestSamplesOfOthers(t *testing.T) {
	needOthers(t)
	config, logs, traces := sampledBy(), &consumertest.LogsSink{}, &consumertest.TracesSink{}
	require.NoError(t, config.Validate())
	factory, set := NewFactory(), receivertest.NewNopSettings(metadata.Type)
	r, err := factory.CreateLogs(t.Context(), set, config, logs)
	require.NoError(t, err)
	same, err := factory.CreateTraces(t.Context(), set, config, traces)
	require.NoError(t, err)
	require.Same(t, r, same)
	startWhole(t, r)

	server, port := serveEndpoints(t)
	clients := map[int64]bool{}
	for _, path := range []string{"/slow", "/quick", "/packed", "/long", "/fail"} {
		arguments := []string{
			"-s", "-o", "/dev/null", "-H", "traceparent: 00-" + trace + "-" + span + "-01", "-H", "Authorization: Bearer secret",
			fmt.Sprintf("http://127.0.0.1:%d%s", port, path),
		}
		if path == "/fail" {
			arguments = append(arguments, "-d", "card=4111")
		}
		cmd := exec.Command("curl", arguments...)
		require.NoError(t, cmd.Run())
		clients[int64(cmd.Process.Pid)] = true
	}
	ours := func(pid int64) bool { return pid == int64(server) || clients[pid] }
	samples := func() map[string]map[string]any { return samplesOf(t, logs, ours) }
	spans := func() map[string]ptrace.Span { return spansOfBoth(t, traces, ours) }
	require.Eventually(t, func() bool { return len(samples()) >= 2*2*4 && len(spans()) >= 2*5 }, time.Minute, 100*time.Millisecond)
	require.NoError(t, r.Shutdown(t.Context()))

	got := samples()
	require.Len(t, got, 2*2*4, "both messages of four requests, on both sides")
	for _, role := range []string{"client", "server"} {
		for _, path := range []string{"/slow", "/packed", "/long", "/fail"} {
			request, response := got[role+" "+path+" request"], got[role+" "+path+" response"]
			require.Equal(t, []any{"[redacted]"}, request["http.request.header.authorization"], path)
			require.Equal(t, []any{fmt.Sprintf("127.0.0.1:%d", port)}, request["http.request.header.host"], path)
			require.Equal(t, trace, request["trace"])
			require.Equal(t, span, response["span"])
		}
		require.Equal(t, "late", got[role+" /slow response"]["ebpf.body.content"])
		require.GreaterOrEqual(t, got[role+" /slow response"]["ebpf.request.duration"], 0.3)
		require.Equal(t, `{"says": "packed"}`, got[role+" /packed response"]["ebpf.body.content"])
		require.Equal(t, "gzip", got[role+" /packed response"]["ebpf.body.encoding"])
		require.NotContains(t, got[role+" /packed response"], "ebpf.body.cut")

		cut := got[role+" /long response"]
		require.Equal(t, true, cut["ebpf.body.cut"])
		require.Equal(t, int64(300_000), cut["http.response.body.size"])
		text := cut["ebpf.body.content"].(string)
		require.Greater(t, len(text), 128<<10-1000, "but for the head all that is captured")
		for n := 0; n+8 <= len(text); n += 8 {
			require.Equal(t, fmt.Sprintf("%07d\n", n), text[n:n+8])
		}

		require.Equal(t, "card=?", got[role+" /fail request"]["ebpf.body.content"], "a form is redacted as a query is")
		failed := got[role+" /fail response"]
		require.Equal(t, int64(500), failed["http.response.status_code"])
		require.Equal(t, "cannot take card=4111", failed["ebpf.body.content"])
		require.Equal(t, []any{"[redacted]"}, failed["http.response.header.set-cookie"])
	}

	exported := spans()
	require.Len(t, exported, 2*5)
	for key, s := range exported {
		require.Equal(t, trace, s.TraceID().String(), key)
		if client, ok := strings.CutPrefix(key, "Server"); ok {
			require.Equal(t, exported["Client"+client].SpanID(), s.ParentSpanID(), key)
		} else {
			require.Equal(t, span, s.ParentSpanID().String(), key)
		}
		require.Equal(t, strings.HasSuffix(key, "/fail"), s.Status().Code() == ptrace.StatusCodeError, key)
		if strings.HasSuffix(key, "/slow") {
			require.GreaterOrEqual(t, s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()), 300*time.Millisecond)
		}
	}
}

// samplesOf returns the attributes of the exported messages, by role, path and direction, with the ids of their traces.
func samplesOf(t *testing.T, sink *consumertest.LogsSink, ours func(pid int64) bool) map[string]map[string]any {
	d, all := readDeclared(t), map[string]map[string]any{}
	for _, l := range allLogs(sink) {
		if !ours(l.pid) {
			continue
		}
		require.Equal(t, "ebpf.request.sample", l.record.EventName(), "nothing else was asked for")
		declared := map[string]any{}
		for key, value := range l.of {
			require.NotContains(t, fmt.Sprint(value), "secret", key)
			if !strings.HasPrefix(key, "http.request.header.") && !strings.HasPrefix(key, "http.response.header.") {
				declared[key] = value
			}
		}
		if l.of["url.path"] == "/ready" {
			continue
		}
		d.requireAttributes(t, l.record.EventName(), d.Events[l.record.EventName()].Attributes, declared)
		if l.of["ebpf.sample"] == "syscall" {
			continue
		}
		l.of["trace"], l.of["span"] = l.record.TraceID().String(), l.record.SpanID().String()
		all[fmt.Sprint(l.of["ebpf.role"], " ", l.of["url.path"], " ", l.of["ebpf.sample"])] = l.of
	}
	return all
}

// spansOfBoth are the spans of both sides, by kind and path.
func spansOfBoth(t *testing.T, sink *consumertest.TracesSink, ours func(pid int64) bool) map[string]ptrace.Span {
	all := map[string]ptrace.Span{}
	for _, message := range sink.AllTraces() {
		for _, resource := range message.ResourceSpans().All() {
			pid, _ := resource.Resource().Attributes().Get("process.pid")
			for _, s := range resource.ScopeSpans().At(0).Spans().All() {
				path, _ := s.Attributes().Get("url.path")
				if !ours(pid.Int()) || path.Str() == "/ready" {
					continue
				}
				key := s.Kind().String() + " " + path.Str()
				require.NotContains(t, all, key, "each is exported once")
				all[key] = s
			}
		}
	}
	return all
}

// serveEndpoints starts testdata/endpoints.py and returns its pid and port.
func serveEndpoints(t *testing.T) (pid, port int) {
	t.Helper()
	return startPython(t, "/ready", "testdata/endpoints.py")
}
