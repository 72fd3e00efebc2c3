// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// everyForm exports the requests of one process in every form: as metrics, one by one, with their content, and as spans.
const everyForm = `
receivers:
  ebpf:
    targets: {include: [{pid: %d}]}
    observe:
      network:
        report_interval: 1s
        capture: messages
        capture_limit: 128KiB
        requests:
          log: all
          slow: 200ms
          spans: true
          samples_per_second: 1000
          samples:
            - {on_5xx: true, request: {max_size: 1KiB}, response: {max_size: 1KiB}}
            - {uri_regex: ^/long, response: {max_size: 128KiB}}
    limits: {cpu_percent: 100}
exporters:
  file/logs: {path: %q, flush_interval: 100ms}
  file/traces: {path: %q, flush_interval: 100ms}
  file/metrics: {path: %q, flush_interval: 100ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [ebpf], exporters: [file/logs]}
    traces: {receivers: [ebpf], exporters: [file/traces]}
    metrics: {receivers: [ebpf], exporters: [file/metrics]}
`

// What the client of the test sends as its trace context.
const (
	carriedTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	carriedSpan  = "00f067aa0ba902b7"
)

// TestRequestsInEveryForm checks that each request that a program has made and answered comes out of the Collector once for each side, as a
// log, as a span and in the metrics, failed ones with their bodies; also the last ones, right before it is stopped. Slow and failing ones
// are among the top ones, and of a long body the start is exported, marked as truncated.
func TestRequestsInEveryForm(t *testing.T) {
	needRoot(t)
	const pause, well, failing = 250 * time.Millisecond, 20, 3
	binary, dir := distribution(t), t.TempDir()
	logs, traces, metrics := filepath.Join(dir, "logs.json"), filepath.Join(dir, "traces.json"), filepath.Join(dir, "metrics.json")
	server := httptest.NewServer(answers(pause))
	t.Cleanup(server.Close)
	c := start(t, binary, fmt.Sprintf(everyForm, os.Getpid(), logs, traces, metrics), nil)

	for end := time.Now().Add(60 * time.Second); !strings.Contains(readText(t, logs), "/warm"); { // until the process is observed
		require.True(t, time.Now().Before(end), "%s", &c.log)
		ask(t, server.URL+"/warm", "")
		time.Sleep(100 * time.Millisecond)
	}
	ask(t, server.URL+"/late?card=4111", "")
	for range failing {
		ask(t, server.URL+"/fail/17", "card=4111")
	}
	ask(t, server.URL+"/long", "")
	for range well {
		ask(t, server.URL+"/well", "")
	}
	c.stop()
	require.NotContains(t, c.log.String(), "\terror\t")

	counted := httpCounts(t, metrics)
	for _, role := range []string{"client", "server"} {
		require.EqualValues(t, well, counted[role+" GET /well 200"], "%v", counted)
		require.EqualValues(t, failing, counted[role+" POST /fail/{id} 502"], "%v", counted)
		require.EqualValues(t, 1, counted[role+" GET /late 200"], "%v", counted)
	}

	exported := readEvents(t, logs)
	for _, role := range []string{"client", "server"} {
		require.Len(t, exported["ebpf.request "+role+" /well"], well)
		require.Len(t, exported["ebpf.request "+role+" /fail/17"], failing)
		late := exported["ebpf.request "+role+" /late"]
		require.Len(t, late, 1)
		require.Equal(t, plog.SeverityNumberWarn, late[0].SeverityNumber())
		require.Equal(t, carriedTrace, hexOf(late[0].TraceID()))
		require.Equal(t, "card=?", text(late[0].Attributes(), "url.query"))
		duration, _ := late[0].Attributes().Get("ebpf.request.duration")
		require.GreaterOrEqual(t, duration.Double(), pause.Seconds())

		samples := exported["ebpf.request.sample "+role+" /fail/17"]
		require.Len(t, samples, 2*failing, "one for the request and one for the response; the calls name no path")
		bodies := map[string]int{}
		for _, s := range samples {
			bodies[text(s.Attributes(), "ebpf.sample")+" "+text(s.Attributes(), "ebpf.body.content")]++
			require.Equal(t, plog.SeverityNumberError, s.SeverityNumber())
		}
		require.Equal(t, map[string]int{"request card=?": failing, "response broken": failing}, bodies)

		for path, reason := range map[string]string{"/late": "slow", "/fail/17": "5xx"} {
			require.True(t, slices.ContainsFunc(exported["ebpf.request.top "+role+" "+path], func(l plog.LogRecord) bool {
				return text(l.Attributes(), "ebpf.reason") == reason && hexOf(l.TraceID()) == carriedTrace
			}), "%s %s is not among the top ones", role, path)
		}
		requireLong(t, exported["ebpf.request.sample "+role+" /long"])
	}

	spans := readSpans(t, traces)
	parents, ids := map[ptrace.SpanKind][]string{}, map[ptrace.SpanKind][]string{}
	for kind, name := range map[ptrace.SpanKind]string{ptrace.SpanKindClient: "client", ptrace.SpanKindServer: "server"} {
		require.Len(t, spans[fmt.Sprint(kind, " GET /well")], well, name)
		require.Len(t, spans[fmt.Sprint(kind, " GET /late")], 1, name)
		failed := spans[fmt.Sprint(kind, " POST /fail/{id}")]
		require.Len(t, failed, failing, name)
		for _, s := range failed {
			require.Equal(t, ptrace.StatusCodeError, s.Status().Code())
			require.Equal(t, carriedTrace, hexOf(s.TraceID()))
			parent := s.ParentSpanID()
			parents[kind] = append(parents[kind], hex.EncodeToString(parent[:]))
			id := s.SpanID()
			ids[kind] = append(ids[kind], hex.EncodeToString(id[:]))
		}
	}
	require.Equal(t, slices.Repeat([]string{carriedSpan}, failing), parents[ptrace.SpanKindClient])
	require.ElementsMatch(t, ids[ptrace.SpanKindClient], parents[ptrace.SpanKindServer], "the server's is the child of the client's")
}

// longBody is longer than any message is captured.
var longBody = strings.Repeat("0123456789abcdef", 300<<10/16)

// requireLong checks that of a long body the start is exported, up to the limit of what is captured with its head, and that it is marked as
// truncated.
func requireLong(t *testing.T, samples []plog.LogRecord) {
	t.Helper()
	responses := slices.DeleteFunc(samples, func(l plog.LogRecord) bool { return text(l.Attributes(), "ebpf.sample") != "response" })
	require.Len(t, responses, 1)
	of := responses[0].Attributes()
	content := text(of, "ebpf.body.content")
	require.True(t, strings.HasPrefix(longBody, content))
	require.Greater(t, len(content), 127<<10)
	require.LessOrEqual(t, len(content), 128<<10)
	require.Equal(t, "true", text(of, "ebpf.body.cut"))
	require.Equal(t, fmt.Sprint(len(longBody)), text(of, "http.response.body.size"))
}

// answers answers well, late after a pause, and with a failure.
func answers(pause time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") })
	mux.HandleFunc("/late", func(http.ResponseWriter, *http.Request) { time.Sleep(pause) })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(longBody)))
		_, _ = io.WriteString(w, longBody)
	})
	mux.HandleFunc("/fail/17", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "broken")
	})
	return mux
}

// ask makes a request, one with a body where form is not empty.
func ask(t *testing.T, url, form string) {
	t.Helper()
	method := http.MethodGet
	if form != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form))
	require.NoError(t, err)
	request.Header.Set("traceparent", "00-"+carriedTrace+"-"+carriedSpan+"-01")
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// readText is what a file has, nothing where it is not there yet.
func readText(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(raw)
}

func hexOf(id pcommon.TraceID) string { return hex.EncodeToString(id[:]) }

// readEvents are the logs of a file, all of this process, by event, role and path.
func readEvents(t *testing.T, file string) map[string][]plog.LogRecord {
	t.Helper()
	all := map[string][]plog.LogRecord{}
	for _, of := range readLogs(t, file) {
		require.EqualValues(t, os.Getpid(), of.pid)
		key := strings.Join([]string{of.EventName(), text(of.Attributes(), "ebpf.role"), text(of.Attributes(), "url.path")}, " ")
		all[key] = append(all[key], of.LogRecord)
	}
	return all
}

// logged is a log and the process that it is of.
type logged struct {
	plog.LogRecord
	pid int64
}

// readLogs are the logs that have been written to a file so far.
func readLogs(t *testing.T, file string) (all []logged) {
	t.Helper()
	written := []byte(readText(t, file))
	for line := range bytes.Lines(written[:bytes.LastIndexByte(written, '\n')+1]) {
		message, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
		require.NoError(t, err)
		for _, resource := range message.ResourceLogs().All() {
			pid, _ := resource.Resource().Attributes().Get("process.pid")
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					all = append(all, logged{record, pid.Int()})
				}
			}
		}
	}
	return all
}

// readSpans are the spans of a file by kind and name.
func readSpans(t *testing.T, file string) map[string][]ptrace.Span {
	t.Helper()
	all := map[string][]ptrace.Span{}
	for line := range bytes.Lines([]byte(readText(t, file))) {
		message, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		require.NoError(t, err)
		for _, resource := range message.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					key := fmt.Sprint(span.Kind(), " ", span.Name())
					all[key] = append(all[key], span)
				}
			}
		}
	}
	return all
}

// httpCounts is how often requests were counted as of the last message of a file, by role, method, route and status.
func httpCounts(t *testing.T, file string) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	written := []byte(readText(t, file))
	for line := range bytes.Lines(written[:bytes.LastIndexByte(written, '\n')+1]) {
		message, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
		require.NoError(t, err)
		for _, resource := range message.ResourceMetrics().All() {
			for _, scope := range resource.ScopeMetrics().All() {
				for _, metric := range scope.Metrics().All() {
					role, isDuration := strings.CutSuffix(strings.TrimPrefix(metric.Name(), "http."), ".request.duration")
					if !isDuration || metric.Type() != pmetric.MetricTypeHistogram {
						continue
					}
					for _, p := range metric.Histogram().DataPoints().All() {
						of := p.Attributes()
						route := text(of, "http.route") + text(of, "url.template")
						key := strings.Join([]string{role, text(of, "http.request.method"), route, text(of, "http.response.status_code")}, " ")
						all[key] = p.Count()
					}
				}
			}
		}
	}
	return all
}
