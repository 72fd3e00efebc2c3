// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// serving is the environment variable that makes the test binary a server of HTTP.
const serving = "EBPFRECEIVER_TEST_SERVE"

// TestHelperServes is that program: it writes its URL, and lives until its standard input ends.
func TestHelperServes(t *testing.T) {
	if os.Getenv(serving) == "" {
		t.Skip("is started by TestNetworkKeepsToTheLimit")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer server.Close()
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startServer starts a server of HTTP that ends with the test, and returns its URL.
func startServer(t *testing.T) (pid int, url string) {
	t.Helper()
	program := exec.Command(os.Args[0], "-test.run=^TestHelperServes$")
	program.Env = append(os.Environ(), serving+"=1")
	in, err := program.StdinPipe()
	require.NoError(t, err)
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, program.Wait())
	})
	url, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return program.Process.Pid, strings.TrimSpace(url)
}

// TestNetworkKeepsToTheLimit holds that requests of fewer connections are captured while that costs more than allowed, that connections of
// which they are and those of which they are not are together as many as the client has made, and that all are captured again once there is
// room.
func TestNetworkKeepsToTheLimit(t *testing.T) {
	needRoot(t)
	guest.TakesLong(t)
	if testing.Short() || emulated {
		t.Skip("what the governor decides is the same on every kernel")
	}
	pid, url := startServer(t)
	config := configuration(time.Second, process.Selector{PID: uint32(pid)})
	config.Observe = []observe.Plan{&network.Plan{Common: observe.Common{ReportInterval: time.Second}, Requests: true, Protocols: []network.Protocol{"http"}, BufferBytes: 8 << 20}}
	config.CPUPercent, config.window = 2, 500*time.Millisecond
	o := begin(t, config)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	connections := 0
	ask := func() {
		response, err := client.Get(url)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		connections++
	}
	level := func() int { return o.Stats().Levels["network"] }
	for began := time.Now(); level() == 0; {
		require.Less(t, time.Since(began), time.Minute, "the limit is exceeded")
		for range 100 {
			ask()
		}
	}
	for range 500 {
		ask()
	}
	require.Eventually(t, func() bool { return level() == 0 }, time.Minute, 100*time.Millisecond, "there is room again")
	for range 10 {
		ask()
	}
	o.end()
	stats := o.Stats()
	left := stats.Lost[LossKey{"network", "connections_unparsed"}]
	captured := o.lastCount(pid, "http.server.request.duration")
	t.Logf("%d connections: requests of %d were captured, %d were left out", connections, captured, left)
	require.Positive(t, left)
	other := uint64(0)
	for key, n := range stats.Lost {
		if key.Probe == "network" && key.Reason != "connections_unparsed" {
			other += n
		}
	}
	if other == 0 {
		require.EqualValues(t, connections, captured+left)
	}
}
