// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// reporting observes the connections of one process, and its requests or not, and says how it is by health_check and metrics of its own.
const reporting = `
extensions: {health_check: {http: {endpoint: %q}}}
receivers:
  ebpf:
    targets: {include: [{pid: %d}]}
    observe: {network: {report_interval: 1s, protocols: [http], tls: [], capture: %s}}
    limits: {cpu_percent: 100}
exporters: {file: {path: %q, flush_interval: 100ms}}
service:
  extensions: [health_check]
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]}}
  pipelines: {metrics: {receivers: [ebpf], exporters: [file]}}
`

// healthCase is a Collector that runs with less than it may want.
type healthCase struct {
	confinement
	// code is what health_check answers, status what it says of the receiver.
	code   int
	status string
	// logged has texts of the log, degraded capabilities of the metric of that name.
	logged, degraded []string
	// requests says that they are reported, connections that nothing but these is asked for: the kernel verifies less.
	requests, connections bool

	*collector
	health, scrape, file string
}

// capture is the configuration's value of that name.
func (c *healthCase) capture() string {
	if c.connections {
		return "none"
	}
	return "headers"
}

// healthCases are each capability missing in turn, and what container engines and hosts have refused.
func healthCases() map[string]*healthCase {
	const advice = "setcap cap_bpf,cap_perfmon,"
	cases := map[string]*healthCase{
		"everything": {confinement: confinement{Tracefs: true}, requests: true},
		// It is opened without being mounted.
		"tracefs not mounted": {requests: true},
		"without CAP_SYS_ADMIN": {
			confinement: confinement{Drop: []uintptr{unix.CAP_SYS_ADMIN}, Tracefs: true}, requests: true, degraded: []string{"run_time_statistics"},
			logged: []string{"enabling run-time statistics of BPF programs", "grant CAP_SYS_ADMIN"},
		},
		"tracefs not mounted, without CAP_SYS_ADMIN": {
			confinement: confinement{Drop: []uintptr{unix.CAP_SYS_ADMIN}}, status: "StatusRecoverableError",
			logged: []string{
				`"capability": "network.requests"`, "requests are unavailable except those by io_uring, plaintext and TLS: ",
				"tracefs, which is not mounted at /sys/kernel/tracing", "mount it there, or grant CAP_SYS_ADMIN",
			},
			degraded: []string{"network.requests", "network.calls", "run_time_statistics"},
		},
		"seccomp": {
			confinement: confinement{Bpf: true, Tracefs: true}, code: http.StatusInternalServerError, status: "StatusPermanentError", degraded: []string{"start"},
			logged: []string{"The receiver observes nothing", "bpf(2) is refused before the kernel sees it (operation not permitted): by the seccomp filter", "--security-opt seccomp="},
		},
	}
	for name, capability := range map[string]uintptr{"CAP_BPF": unix.CAP_BPF, "CAP_PERFMON": unix.CAP_PERFMON} {
		cases["without "+name] = &healthCase{ // CAP_SYS_ADMIN includes both
			confinement: confinement{Drop: []uintptr{capability, unix.CAP_SYS_ADMIN}, Tracefs: true},
			code:        http.StatusInternalServerError, status: "StatusPermanentError", degraded: []string{"start"},
			logged: []string{"The receiver observes nothing", "missing " + name + " (to ", advice},
		}
	}
	for name, capabilities := range map[string][]uintptr{
		"CAP_SYS_PTRACE": {unix.CAP_SYS_PTRACE}, "CAP_NET_ADMIN": {unix.CAP_NET_ADMIN}, "CAP_SYSLOG": {unix.CAP_SYSLOG},
		"CAP_DAC_READ_SEARCH":    {unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE},
		"CAP_CHECKPOINT_RESTORE": {unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_ADMIN},
	} {
		c := &healthCase{
			confinement: confinement{Drop: capabilities, Tracefs: true}, connections: true, degraded: []string{"capabilities"},
			logged: []string{"missing " + name + " (to ", advice},
		}
		if name == "CAP_CHECKPOINT_RESTORE" {
			c.degraded = append(c.degraded, "run_time_statistics")
		}
		cases["without "+name] = c
	}
	return cases
}

// TestHealth checks that health_check, the log and otelcol_ebpf_degraded say what a receiver cannot do, and that it does what is left: of 20 requests 20 are
// reported, or none with a reason.
func TestHealth(t *testing.T) {
	needRoot(t)
	const sent = 20
	cases := healthCases()
	for _, c := range cases {
		c.health, c.scrape, c.file = freeport.Endpoint(t), freeport.Endpoint(t), filepath.Join(t.TempDir(), "metrics.json")
		_, port, _ := strings.Cut(c.scrape, ":")
		c.collector = launch(t, distribution(t), fmt.Sprintf(reporting, c.health, os.Getpid(), c.capture(), c.file, port), runningWith(t, c.confinement))
	}
	for _, c := range cases {
		c.started(1)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer server.Close()
	for range sent {
		require.Equal(t, "ok", get(t, server.URL+"/products"))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { c.check(t, sent) })
	}
}

// check compares what a Collector says and reports with what is expected, and stops it.
func (c *healthCase) check(t *testing.T, sent uint64) {
	if c.status == "" {
		c.status = "StatusOK"
	}
	var health struct {
		Status, Error string
		Healthy       bool
	}
	require.Eventually(t, func() bool { // health_check hears of a status after it is logged
		code, text := statusOf(t, "http://"+c.health+"/status?verbose")
		health.Error = ""
		require.NoError(t, json.Unmarshal([]byte(text), &health), "%s", text)
		return code == max(c.code, http.StatusOK) && health.Status == c.status
	}, time.Minute, 50*time.Millisecond, "%v; want %d %s: %s", &health, max(c.code, http.StatusOK), c.status, &c.log)
	require.Equal(t, c.code == 0, health.Healthy)
	page := get(t, "http://"+c.scrape+"/metrics")
	var degraded []string
	for line := range strings.Lines(page) {
		if _, labels, found := strings.Cut(line, `otelcol_ebpf_degraded{capability="`); found {
			capability, _, _ := strings.Cut(labels, `"`)
			degraded = append(degraded, capability)
		}
	}
	c.stop()
	log := c.log.String()
	require.ElementsMatch(t, c.degraded, degraded, "%s", log)
	for _, logged := range c.logged {
		require.Contains(t, log, logged)
	}
	require.NotContains(t, log, "RLIMIT_MEMLOCK")
	if health.Error != "" {
		require.Contains(t, log, strings.Split(health.Error, "\n")[0], "the status says what the log says")
	}
	counted := uint64(0)
	if c.requests {
		counted = sent
	}
	if c.code == 0 {
		require.Equal(t, counted, httpCounts(t, c.file)["server GET /products 200"], "%s", log)
	}
}
