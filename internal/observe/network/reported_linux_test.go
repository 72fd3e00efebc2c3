// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// peersOf returns the peers in the attributes of the points of a metric of this process with a role.
func (w *watching) peersOf(name, role string) map[string]bool {
	w.t.Helper()
	got := map[string]bool{}
	for _, m := range w.last.Metrics {
		if m.Process == nil || m.Process.ID.PID != uint32(os.Getpid()) {
			continue
		}
		for _, metric := range m.Metrics {
			for _, p := range metric.Points {
				if metric.Name != name || !has(p.Attributes, model.Text("ebpf.role", role)) {
					continue
				}
				got[peerText(p.Attributes)] = true
			}
		}
	}
	return got
}

func has(list []model.Attribute, one model.Attribute) bool {
	for _, a := range list {
		if a == one {
			return true
		}
	}
	return false
}

// peerText returns the peer in attributes as a text.
func peerText(list []model.Attribute) string {
	var texts []string
	for _, a := range list {
		switch a.Key {
		case "ebpf.peer.pid", "network.peer.port":
			texts = append(texts, a.Key)
		case "ebpf.peer.local":
			texts = append(texts, "local")
		case "network.peer.address", "network.protocol.name", "network.transport", "network.type":
			texts = append(texts, a.Value.Text)
		}
	}
	return strings.Join(texts, " ")
}

// TestRequestsHavePeers checks that requests have the peers that connections have, with each detail, though they end before a peer is known.
func TestRequestsHavePeers(t *testing.T) {
	for detail, want := range map[requests.PeerDetail][2]string{
		requests.PeerProcess: {"127.0.0.1 network.peer.port ebpf.peer.pid local", "127.0.0.1 ebpf.peer.pid local"},
		requests.PeerAddress: {"127.0.0.1 network.peer.port local", "127.0.0.1 local"},
		requests.PeerService: {"127.0.0.1 network.peer.port local", "local"}, // the process has no service.name here
		requests.PeerNone:    {"", ""},
	} {
		c := requestConfig()
		c.Peers = detail
		w := watch(t, c, nil)
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		client := server.Client()
		for range 2 {
			response, err := client.Get(server.URL)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
		}
		client.CloseIdleConnections()
		server.Close()
		w.settle()
		for i, role := range []string{"client", "server"} {
			peer := strings.TrimSpace("http tcp ipv4 " + want[i])
			require.Equal(t, map[string]bool{peer: true}, w.peersOf("http."+role+".request.duration", role), role)
			points := w.peersOf("ebpf.network.io", role)
			require.Contains(t, points, strings.Join(strings.Fields("tcp ipv4 "+want[i]+" http"), " "), role)
		}
	}
}
