// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// byInstance reports metrics of one program to Prometheus as they are by default, with resource attributes as labels and without.
const byInstance = `
receivers:
  ebpf:
    targets: {include: [{exe: %q}]}
    observe: {network: {report_interval: 1s}}
    limits: {cpu_percent: 100}
exporters:
  prometheus/plain: {endpoint: %q}
  prometheus/converted: {endpoint: %q, resource_to_telemetry_conversion: {enabled: true}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [ebpf], exporters: [prometheus/plain, prometheus/converted]}}
`

// TestShortLivedProcessesAreOneSeries checks that a server which forks for each request, and a command that runs once for each, have one series each,
// which only grows, by as much as the client has asked; with resource attributes as labels and without.
func TestShortLivedProcessesAreOneSeries(t *testing.T) {
	needRoot(t)
	binary, program := distribution(t), testbin.C(t, "testdata/forks.c")
	pages := []string{freeport.Endpoint(t), freeport.Endpoint(t)}
	c := start(t, binary, fmt.Sprintf(byInstance, program, pages[0], pages[1]), nil)
	port := forking(t, program)
	read := func(page string) string { return get(t, "http://"+page+"/metrics") }
	const requests, rounds, sent = 15, 2, len("GET /hello HTTP/1.1\r\nHost: shop.example\r\n\r\n")
	for round := range rounds {
		for range requests {
			require.NoError(t, exec.Command(program, port).Run())
		}
		want := int64((round + 1) * requests)
		for _, page := range pages {
			for _, of := range []struct {
				texts []string
				want  int64
			}{
				{[]string{"http_server_request_duration_seconds_count{"}, want},
				{[]string{"http_client_request_duration_seconds_count{"}, want},
			} {
				var got []int64
				require.Eventually(t, func() bool {
					got = samples(read(page), of.texts...)
					sum := int64(0)
					for _, n := range got {
						sum += n
					}
					return sum >= of.want
				}, time.Minute, 100*time.Millisecond, "%v", of.texts)
				require.Equal(t, []int64{of.want}, got, "%v", of.texts)
			}
			bytes := []string{"ebpf_network_io_bytes_total{", `ebpf_role="client"`, `direction="transmit"`}
			var got []int64
			require.Eventually(t, func() bool {
				sum := int64(0)
				got = samples(read(page), bytes...)
				for _, n := range got {
					sum += n
				}
				return sum == want*int64(sent)
			}, time.Minute, 100*time.Millisecond, "%v", bytes)
			require.LessOrEqual(t, len(got), 2, "one, and one for what was counted before the other end was known")
		}
	}
	for _, page := range pages {
		requireNoSampleTwice(t, read(page))
		require.NotContains(t, read(page), "process_pid=")
	}
	require.Contains(t, read(pages[1]), `service_instance_id="`)
	c.stop()
	require.NotContains(t, c.log.String(), "\terror\t")
}

// TestClientsOfForkingServerHaveOnePeer checks that clients have the service of a server that forks for each connection as their peer, though the process that
// has accepted a connection is gone before it is known: no series is by the server's address. Requests have the same peer.
func TestClientsOfForkingServerHaveOnePeer(t *testing.T) {
	needRoot(t)
	binary, program := distribution(t), testbin.C(t, "testdata/forks.c")
	pages := []string{freeport.Endpoint(t), freeport.Endpoint(t)}
	port := forking(t, program)
	start(t, binary, fmt.Sprintf(byInstance, program, pages[0], pages[1]), nil)
	for range 50 {
		client := exec.Command(program, port, "500")
		require.NoError(t, client.Start())
		t.Cleanup(func() {
			_ = client.Process.Kill()
			_ = client.Wait()
		})
	}
	read := func() string { return get(t, "http://"+pages[0]+"/metrics") }
	peer := `service_peer_name="unknown_service:`
	require.Eventually(t, func() bool {
		served := samples(read(), "http_server_request_duration_seconds_count{", peer)
		return len(served) > 0 && served[0] > 600
	}, time.Minute, 200*time.Millisecond)
	page := read()
	require.Empty(t, samples(page, "ebpf_network_io_bytes_total{", `ebpf_role="client"`, "network_peer_address="))
	require.Empty(t, samples(page, "http_client_request_duration_seconds_count{", "network_peer_address="))
	for _, of := range []string{`ebpf_role="client"`, `ebpf_role="server"`, `network_protocol_name="http"`, `network_transport="tcp"`, `network_type="ipv4"`, peer, `ebpf_peer_local="true"`} {
		require.NotEmpty(t, samples(page, "request_duration_seconds_count{", of), of)
	}
}

// forking starts a server that forks for each connection, and returns its port.
func forking(t *testing.T, program string) (port string) {
	t.Helper()
	cmd := exec.Command(program)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	port = strings.TrimSpace(line)
	_, err = strconv.Atoi(port)
	require.NoError(t, err)
	return port
}
