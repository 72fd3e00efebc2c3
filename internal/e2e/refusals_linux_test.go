// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// TestBadConfiguration checks that the Collector does not start and names the keys by their full paths, whatever the receivers
// are called.
func TestBadConfiguration(t *testing.T) {
	binary := distribution(t)
	for name, c := range map[string]struct{ first, second, want string }{
		"range": {"{observe: {on_cpu: {period: 1h}}}", "{limits: {cpu_percent: 0}}",
			"receivers::ebpf::observe::on_cpu::period: 1h0m0s is not allowed: it must lie between 1ms and 1s\n" +
				"receivers::ebpf/x::limits::cpu_percent: 0 is not allowed: it is per cent of one core, above 0 and at most 100\n"},
		"key": {"", "{observe: {memory: {period: 9ms}}}",
			"receivers::ebpf/x::observe::memory::period: no such key; allowed here are live, report_interval, sample_bytes, source, targets\n"},
		"value": {`{targets: {include: [{exe: /a}, {exe: "["}]}}`, `{targets: {exclude: [{comm: "("}]}}`,
			`receivers::ebpf::targets::include[1]::exe: compiling the glob "[": at byte 1: [ without ], or nothing between them` + "\n" +
				"receivers::ebpf/x::targets::exclude[0]::comm: compiling the RE2 pattern: error parsing regexp: missing closing ): `(`\n"},
		"type": {"{limits: {memory_mib: plenty}}", "",
			`receivers::ebpf::limits::memory_mib: "plenty" is not allowed: it must be a whole number` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			launched := launch(t, binary, fmt.Sprintf(`
receivers: {ebpf: %s, ebpf/x: %s}
exporters: {nop: }
service: {pipelines: {profiles: {receivers: [ebpf, ebpf/x], exporters: [nop]}}}
`, c.first, c.second), nil)
			require.NotZero(t, launched.exit())
			_, text, found := strings.Cut(launched.log.String(), "cannot convert the confmap.Conf: ")
			require.True(t, found, "%s", &launched.log)
			require.Equal(t, c.want, text)
		})
	}
}

// TestNobody starts the Collector as a user without privileges: the receiver says what it lacks, the rest works.
func TestNobody(t *testing.T) {
	dir := shared(t)
	health, otlp, file := freeport.Endpoint(t), freeport.Endpoint(t), filepath.Join(dir, "metrics.json")
	c := start(t, copied(t, distribution(t), dir), fmt.Sprintf(`
extensions: {health_check: {endpoint: %q}}
receivers:
  ebpf:
  otlp: {protocols: {http: {endpoint: %q}}}
exporters: {file: {path: %q, flush_interval: 100ms}, nop: }
service:
  extensions: [health_check]
  telemetry: {metrics: {level: none}}
  pipelines:
    profiles: {receivers: [ebpf], exporters: [nop]}
    metrics: {receivers: [otlp], exporters: [file]}
`, health, otlp, file), asNobody())
	c.eventually("The receiver observes nothing")
	for _, text := range []string{
		"missing CAP_BPF (to load BPF programs and create their maps), CAP_PERFMON (to attach",
		"setcap cap_bpf,cap_perfmon", "AmbientCapabilities=CAP_BPF CAP_PERFMON", "capabilities.add: [BPF, PERFMON",
	} {
		require.Contains(t, c.log.String(), text)
	}
	const gauge = `{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "sent", "gauge": {"dataPoints": [{"asInt": "1"}]}}]}]}]}`
	response, err := http.Post("http://"+otlp+"/v1/metrics", "application/json", strings.NewReader(gauge))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), `"sent"`)
	}, time.Minute, 50*time.Millisecond, "the other pipeline works: %s", &c.log)
	require.Eventually(t, func() bool {
		code, _ := statusOf(t, "http://"+health)
		return code == http.StatusInternalServerError
	}, time.Minute, 50*time.Millisecond, "it says that the receiver observes nothing")
	c.stop()
	require.NotContains(t, c.log.String(), "panic")
}

// TestSelectorsThatMatchNothing checks that they are warned about once, by path, however often the processes are scanned, and counted
// until they match.
func TestSelectorsThatMatchNothing(t *testing.T) {
	needRoot(t)
	metrics := freeport.Endpoint(t)
	host, port, err := net.SplitHostPort(metrics)
	require.NoError(t, err)
	c := start(t, distribution(t), fmt.Sprintf(`
receivers:
  ebpf:
    targets:
      include: [{exe: /none/of/this}, {comm: otelcol, pid: 1}, {pid: %d}]
      exclude: [{comm: "^nobody$"}]
      scan_interval: 1s
    observe: {on_cpu: {report_interval: 1s, targets: [{service: "^none$"}]}}
exporters: {nop: }
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: %s, port: %s}}}}]}}
  pipelines: {profiles: {receivers: [ebpf], exporters: [nop]}}
`, os.Getpid(), host, port), nil)
	const warning = "selectors match no process so far"
	c.eventually(warning)
	require.Contains(t, c.log.String(),
		`"selectors": ["targets::include[0]", "targets::include[1]", "targets::exclude[0]", "observe::on_cpu::targets[0]"]`)
	time.Sleep(2500 * time.Millisecond) // two scans more
	require.Equal(t, 1, strings.Count(c.log.String(), warning), "%s", &c.log)
	require.Contains(t, get(t, "http://"+metrics+"/metrics"), `otelcol_ebpf_selectors_unmatched{receiver="ebpf"} 4`)
	c.stop()
}
