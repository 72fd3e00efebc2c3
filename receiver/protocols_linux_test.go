// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// query is a DNS query for the address of a.test, as RFC 1035, 4.1, has it.
var query = []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01")

// answerDNS answers each query that a socket gets with no records.
func answerDNS(socket net.PacketConn) {
	buffer := make([]byte, 512)
	for {
		n, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		answer := bytes.Clone(buffer[:n])
		answer[2] |= 0x80
		_, _ = socket.WriteTo(answer, from)
	}
}

// lookUp is a program of Python that sends a query to a port and waits for the answer.
const lookUp = `import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", int(sys.argv[1])))
s.send(bytes.fromhex(sys.argv[2]))
s.settimeout(60)
s.recv(512)`

// askAll has other processes make one request of each protocol, and returns their pids.
func askAll(t *testing.T) (pids []int64) {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	server.Config.Protocols = protocols
	server.Start()
	defer server.Close()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, socket.Close()) }()
	go answerDNS(socket)
	for _, client := range []*exec.Cmd{
		exec.Command("curl", "-sS", "--http1.1", server.URL),
		exec.Command("curl", "-sS", "--http2-prior-knowledge", server.URL),
		exec.Command("python3", "-c", lookUp, fmt.Sprint(socket.LocalAddr().(*net.UDPAddr).Port), hex.EncodeToString(query)),
	} {
		output, err := client.CombinedOutput()
		require.NoError(t, err, "%s", output)
		pids = append(pids, int64(client.Process.Pid))
	}
	return pids
}

// TestEachProtocolAloneIsLogged checks that a logs pipeline alone gets the requests of the one protocol that is listed, and of no other one.
func TestEachProtocolAloneIsLogged(t *testing.T) {
	needOthers(t)
	// By the conventions HTTP/2 is of the protocol http, too.
	for protocol, want := range map[string]string{"http": "http 1.1", "http2": "http 2", "dns": "dns"} {
		t.Run(protocol, func(t *testing.T) {
			config, sink := createDefaultConfig().(*Config), &consumertest.LogsSink{}
			config.Limits.CPUPercent = 100 // it reads the requests of all connections
			n := networkOf(config)
			n.Protocols, n.ReportInterval, n.Requests.Log, n.Requests.Top = []string{protocol}, 500*time.Millisecond, network.LogAll, 0
			r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), config, sink)
			require.NoError(t, err)
			startWhole(t, r)
			require.Positive(t, r.(*ebpfReceiver).engine.Stats().Attached["network"])
			clients := askAll(t)
			got := func() map[string]int {
				events := map[string]int{}
				for _, l := range allLogs(sink) {
					if !slices.Contains(clients, l.pid) {
						continue
					}
					name, _ := l.of["network.protocol.name"].(string)
					if version, ok := l.of["network.protocol.version"].(string); ok {
						name += " " + version
					}
					if _, lookup := l.of["dns.question.name"]; lookup {
						name = "dns"
					}
					events[name]++
				}
				return events
			}
			require.Eventually(t, func() bool { return len(got()) > 0 }, time.Minute, 20*time.Millisecond)
			require.NoError(t, r.Shutdown(t.Context()))
			require.Equal(t, map[string]int{want: 1}, got())
		})
	}
}
