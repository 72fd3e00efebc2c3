// SPDX-License-Identifier: Apache-2.0

//go:build e2e && full && prometheus && linux

package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

func TestMain(m *testing.M) {
	nettest.Main() // returns unless this process was started as one of its programs
	os.Exit(m.Run())
}

// traffic is for how long programs make traffic.
const traffic = 25 * time.Second

// TestPrometheus has programs whose own counts are known, a Collector with explicit histograms and one with exponential ones, and servers of
// Prometheus that get their metrics in each way. Prometheus has the programs' counts and rates by each way, each panel of the dashboard shows
// something, and the alerts fire that are to.
func TestPrometheus(t *testing.T) {
	needsRoot(t)
	explicit := newExporting(t, "explicit")
	exponential := newExporting(t, "exponential")
	scraping := startPrometheus(t, scrapeConfig(t, explicit, exponential))
	explicit.otlp, exponential.otlp = startPrometheus(t, "{}"), startPrometheus(t, "{}")
	collectors := []*collector{explicit.start(t), exponential.start(t)}
	asked, looked := makeTraffic(t)
	time.Sleep(4 * time.Second) // until the last interval was scraped, twice

	const shop = `{job="shop",%s}`
	classic := func(via string) string { return "http_server_request_duration_seconds_count" + fmt.Sprintf(shop, via) }
	native := func(via string) string {
		return "histogram_count(http_server_request_duration_seconds" + fmt.Sprintf(shop, via) + ")"
	}
	for name, way := range map[string]struct {
		server *prometheus
		count  func(via string) string
		via    string
	}{
		"scrape":                    {scraping, classic, `via=""`},
		"scrape, labels":            {scraping, classic, `via="labels"`},
		"scrape, native":            {scraping, native, `via="native"`},
		"OTLP":                      {explicit.otlp, classic, `via=""`},
		"OTLP, exponential":         {exponential.otlp, native, `via=""`},
		"remote write":              {explicit.otlp, classic, `via="written"`},
		"remote write, exponential": {exponential.otlp, native, `via="written"`},
	} {
		t.Run(name, func(t *testing.T) {
			for status, want := range map[string]float64{"200": asked, "500": asked} {
				of := way.via + `,http_response_status_code="` + status + `"`
				require.InDelta(t, want, way.server.one(t, "sum("+way.count(of)+")"), 0, status)
			}
			selector := way.count(way.via)
			require.InDelta(t, 1, way.server.one(t, "count(count by (instance) ("+selector+"))"), 0, "one instance, whatever was forked")
		})
	}
	for name, way := range map[string]struct {
		server *prometheus
		via    string
	}{"scrape": {scraping, `via="native"`}, "OTLP": {exponential.otlp, `via=""`}} {
		t.Run("quantiles by "+name, func(t *testing.T) {
			of := fmt.Sprintf(shop, way.via+`,http_response_status_code="200"`)
			require.InEpsilon(t, 0.0515, way.server.one(t, "histogram_quantile(0.5, sum(http_server_request_duration_seconds"+of+"))"), 0.1)
		})
	}
	t.Run("rates", func(t *testing.T) {
		of := `http_server_request_duration_seconds_count{job="shop",via="",http_response_status_code="500"}`
		require.InEpsilon(t, asked/traffic.Seconds(), scraping.one(t, fmt.Sprintf("sum(rate(%s[15s] offset 8s))", of)), 0.1)
		require.InDelta(t, 0, scraping.one(t, "sum(resets("+of+"[1m]))"), 0, "a process for each request, and one series that grows")
		lookups := `dns_lookup_duration_seconds_count{job="resolver",via="",error_type="NXDOMAIN"}`
		require.InDelta(t, looked, scraping.one(t, "sum("+lookups+")"), 0)
	})
	t.Run("dashboard", scraping.requireDashboard)
	t.Run("alerts", scraping.requireAlerts)
	for _, c := range collectors {
		c.stop(t)
	}
}

// exporting is a Collector that exports metrics to Prometheus in several ways.
type exporting struct {
	histograms            string
	plain, labels, itself string // endpoints
	otlp                  *prometheus
}

func newExporting(t *testing.T, histograms string) *exporting {
	t.Helper()
	return &exporting{histograms: histograms, plain: freeport.Endpoint(t), labels: freeport.Endpoint(t), itself: freeport.Endpoint(t)}
}

func (e *exporting) start(t *testing.T) *collector {
	t.Helper()
	host, port, err := net.SplitHostPort(e.itself)
	require.NoError(t, err)
	return start(t, strings.NewReplacer("HISTOGRAMS", e.histograms, "PLAIN", e.plain, "LABELS", e.labels, "OTLP", e.otlp.endpoint,
		"SELF_HOST", host, "SELF_PORT", port).Replace(`
receivers:
  ebpf:
    observe:
      network: {report_interval: 1s}
    metrics: {histograms: HISTOGRAMS}
    policies:
      - name: busy
        when: [{monitor: process_cpu, threshold: 25, period: 3s, count: 2}]
        run: [on_cpu]
        duration: 5s
exporters:
  nop:
  prometheus: {endpoint: PLAIN, without_scope_info: true}
  prometheus/labels: {endpoint: LABELS, without_scope_info: true, resource_to_telemetry_conversion: {enabled: true}}
  otlp_http:
    endpoint: http://OTLP/api/v1/otlp
    tls: {insecure: true}
  prometheus_remote_write:
    endpoint: http://OTLP/api/v1/write
    tls: {insecure: true}
    external_labels: {via: written}
service:
  telemetry:
    metrics:
      readers: [{pull: {exporter: {prometheus: {host: SELF_HOST, port: SELF_PORT}}}}]
  pipelines:
    metrics: {receivers: [ebpf], exporters: [prometheus, prometheus/labels, otlp_http, prometheus_remote_write]}
    profiles: {receivers: [ebpf], exporters: [nop]}
`))
}

// scrapeConfig is the documented configuration, with the endpoints of the test and two more targets.
func scrapeConfig(t *testing.T, explicit, exponential *exporting) string {
	t.Helper()
	text, err := os.ReadFile(examples + "prometheus/prometheus.yaml")
	require.NoError(t, err)
	alerts, err := filepath.Abs(examples + "prometheus/alerts.yaml")
	require.NoError(t, err)
	rules, err := os.ReadFile(alerts)
	require.NoError(t, err)
	quick := filepath.Join(t.TempDir(), "alerts.yaml")
	var lines []string
	for line := range strings.Lines(string(rules)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "for: ") { // they fire at once
			lines = append(lines, strings.ReplaceAll(line, "[5m]", "[15s]"))
		}
	}
	require.NoError(t, os.WriteFile(quick, []byte(strings.Join(lines, "")), 0o600))
	targets := func(via, endpoint string) string {
		return fmt.Sprintf("\n      - {targets: [%q], labels: {via: %s}}", endpoint, via)
	}
	config := string(text)
	for old, replacement := range map[string]string{
		"15s": "1s", "[alerts.yaml]": "[" + quick + "]", `["localhost:8888"]`: `["` + explicit.itself + `"]`,
		`["localhost:8889"]`: `["` + explicit.plain + `"]` + targets("labels", explicit.labels) + targets("native", exponential.plain),
	} {
		require.Contains(t, config, old)
		config = strings.ReplaceAll(config, old, replacement)
	}
	return config
}

// makeTraffic runs all programs and returns how many requests of each kind were sent, and how many lookups.
func makeTraffic(t *testing.T) (asked, looked float64) {
	t.Helper()
	web, opaque := freeport.Endpoint(t), freeport.Endpoint(t)
	toServer, toClient := handshake(t)
	const resolver = "127.0.0.9:53"
	background(t, "shop", "server", web)
	background(t, "resolver-server", "names", resolver)
	background(t, "vault", "replay-server", opaque, toServer, toClient)
	background(t, "backup", "replay-client", opaque, toServer, toClient)
	seconds := fmt.Sprint(traffic.Seconds())
	background(t, "burner", "burn", seconds)
	customer, resolving := foreground(t, "customer", "client", web, seconds), foreground(t, "resolver", "lookup", resolver, seconds)
	loseSegments(t)
	return customer(), resolving()
}

// program is one of testdata/traffic.py, whose second argument is an endpoint where it has one.
func program(t *testing.T, service string, args ...string) *exec.Cmd {
	t.Helper()
	if host, port, err := net.SplitHostPort(args[1]); err == nil {
		args = append([]string{args[0], host, port}, args[2:]...)
	}
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{"testdata/traffic.py"}, args...)...)
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME="+service)
	cmd.Stderr = os.Stderr
	return cmd
}

// background starts a program that runs until the test ends, and waits until others may begin.
func background(t *testing.T, service string, args ...string) {
	t.Helper()
	cmd := program(t, service, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
}

// foreground starts a program and returns what waits for the number that it prints.
func foreground(t *testing.T, service string, args ...string) func() float64 {
	t.Helper()
	cmd := program(t, service, args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	return func() float64 {
		require.NoError(t, cmd.Wait())
		n, err := strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
		require.NoError(t, err)
		require.Positive(t, n)
		return n
	}
}

// loseSegments transfers bytes over a way that loses some of them.
func loseSegments(t *testing.T) {
	t.Helper()
	here, there := nettest.New(t), nettest.New(t)
	_, far, relay := nettest.JoinByRelay(t, here, there, nettest.Path{Delay: 5 * time.Millisecond, Lose: nettest.LoseSegments(20)}, nettest.Path{})
	client, server := nettest.Start(t, here), nettest.Start(t, there)
	l := server.Listen("tcp4", netip.AddrPortFrom(far.IPv4, 0))
	from := client.Dial("tcp4", l.Local)
	to := l.Accept()
	for end := time.Now().Add(traffic / 2); time.Now().Before(end); {
		nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 1 << 18}, to, nettest.Transfer{How: "read", Bytes: 1 << 18})
	}
	require.Positive(t, relay.Lost())
}

// handshake writes what the two ends of a connection through TLS send to files. Programs that send them are of no library that is known.
func handshake(t *testing.T) (toServer, toClient string) {
	t.Helper()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.StartTLS()
	certificates := web.TLS.Certificates
	web.Close()
	a, b := net.Pipe()
	sent, received := &recorded{Conn: a}, &recorded{Conn: b}
	client := tls.Client(sent, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // to itself
	server := tls.Server(received, &tls.Config{Certificates: certificates})
	go func() { _, _ = io.Copy(server, server) }()
	_, err := client.Write([]byte("secret"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 6))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	toServer, toClient = filepath.Join(t.TempDir(), "client"), filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(toServer, sent.wrote.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(toClient, received.wrote.Bytes(), 0o600))
	return toServer, toClient
}

type recorded struct {
	net.Conn
	wrote bytes.Buffer
}

func (r *recorded) Write(p []byte) (int, error) {
	r.wrote.Write(p)
	return r.Conn.Write(p)
}

// prometheus is a running server.
type prometheus struct{ endpoint string }

func startPrometheus(t *testing.T, config string) *prometheus {
	t.Helper()
	path, err := filepath.Abs("../../../_build/tools/prometheus")
	require.NoError(t, err)
	require.FileExists(t, path, "make test-prometheus builds it")
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	p := &prometheus{endpoint: freeport.Endpoint(t)}
	cmd := exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.endpoint,
		"--web.enable-otlp-receiver", "--web.enable-remote-write-receiver")
	log := &output{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + p.endpoint + "/-/ready")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "%s", log)
	return p
}

func (p *prometheus) get(t *testing.T, path string, into any) {
	t.Helper()
	response, err := http.Get("http://" + p.endpoint + "/api/v1/" + path)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	require.NoError(t, json.Unmarshal(body, into))
}

// query returns the values of an instant query.
func (p *prometheus) query(t *testing.T, expression string) (values []float64) {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct {
				Value []any
			}
		}
	}
	p.get(t, "query?query="+url.QueryEscape(expression), &answer)
	for _, r := range answer.Data.Result {
		require.Len(t, r.Value, 2, expression)
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(t, err)
		values = append(values, v)
	}
	return values
}

// one is the value of an expression that has one.
func (p *prometheus) one(t *testing.T, expression string) float64 {
	t.Helper()
	values := p.query(t, expression)
	require.Len(t, values, 1, expression)
	return values[0]
}

// requireDashboard holds that each query of each panel has a value.
func (p *prometheus) requireDashboard(t *testing.T) {
	text, err := os.ReadFile(examples + "grafana/services.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	panels := 0
	for _, panel := range dashboard.Panels {
		if panel.Type == "row" {
			continue
		}
		panels++
		t.Run(panel.Title, func(t *testing.T) {
			require.NotEmpty(t, panel.Targets)
			for _, target := range panel.Targets {
				expression := strings.NewReplacer("$__rate_interval", "30s", "$service", ".*").Replace(target.Expr)
				numbers := 0
				for _, v := range p.query(t, expression) {
					if !math.IsNaN(v) && !math.IsInf(v, 0) {
						numbers++
					}
				}
				require.Positive(t, numbers, "%s has no value", expression)
			}
		})
	}
	require.Greater(t, panels, 15)
}

// requireAlerts holds that Prometheus can evaluate all rules, and that those fire whose cause the programs are.
func (p *prometheus) requireAlerts(t *testing.T) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
	}
	p.get(t, "rules", &answer)
	states := map[string]string{}
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			require.Equal(t, "ok", rule.Health, "%s: %s", rule.Name, rule.LastError)
			states[rule.Name] = rule.State
		}
	}
	require.Len(t, states, 8)
	for _, name := range []string{"ServiceFailsRequests", "LookupsFail"} {
		require.Equal(t, "firing", states[name], name)
	}
	require.Equal(t, "inactive", states["ServiceAnswersSlowly"])
}
