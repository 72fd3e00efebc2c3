// SPDX-License-Identifier: Apache-2.0

//go:build e2e && linux

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

const examples = "../../../docs/examples/"

// TestExampleConfiguration starts the configuration that the image and the systemd unit have.
func TestExampleConfiguration(t *testing.T) {
	if inGuest() {
		t.Skip("the examples are not in the guest, and the same on every kernel")
	}
	text, err := os.ReadFile(examples + "config.yaml")
	require.NoError(t, err)
	out, err := exec.Command(binary(t, distribution), "validate", "--config", examples+"config.yaml").CombinedOutput()
	require.NoError(t, err, "%s", out)
	needsRoot(t)
	backend := newBackend(t)
	t.Setenv("OTLP_ENDPOINT", backend.endpoint)
	t.Setenv("OTLP_INSECURE", "true")
	t.Setenv("HEALTH_ENDPOINT", freeport.Endpoint(t))
	collector := start(t, string(text))
	requireHealthy(t, os.Getenv("HEALTH_ENDPOINT"))
	for _, signal := range []string{"profiles", "metrics"} {
		backend.await(t, signal, "service.name")
	}
	collector.stop(t)
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
}

// requireHealthy holds that health_check comes to answer 200.
func requireHealthy(t *testing.T, endpoint string) {
	t.Helper()
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + endpoint + "/status")
		require.NoError(t, err)
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond)
}

// backend is a Collector that receives OTLP and writes it to files.
type backend struct{ endpoint, dir string }

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{freeport.Endpoint(t), t.TempDir()}
	var exporters, pipelines []string
	for _, signal := range []string{"profiles", "metrics", "logs"} {
		exporters = append(exporters, fmt.Sprintf("file/%s: {path: %s/%s.json}", signal, b.dir, signal))
		pipelines = append(pipelines, fmt.Sprintf("%s: {receivers: [otlp], exporters: [file/%s]}", signal, signal))
	}
	c := start(t, fmt.Sprintf("receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}\nexporters: {%s}\nservice: {telemetry: {metrics: {level: none}}, pipelines: {%s}}\n",
		b.endpoint, strings.Join(exporters, ", "), strings.Join(pipelines, ", ")))
	t.Cleanup(func() { c.stop(t) })
	return b
}

// await waits for a message with texts.
func (b *backend) await(t *testing.T, signal string, texts ...string) (found string) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := os.ReadFile(filepath.Join(b.dir, signal+".json"))
		if err != nil {
			return false
		}
	lines:
		for line := range strings.Lines(string(all)) {
			for _, text := range texts {
				if !strings.Contains(line, text) {
					continue lines
				}
			}
			found = line
			return true
		}
		return false
	}, time.Minute, 200*time.Millisecond, "%s with %v", signal, texts)
	return found
}
