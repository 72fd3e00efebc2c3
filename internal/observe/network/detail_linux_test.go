// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestPeerDetail checks the attributes of the peer for each detail: never the port of a client.
func TestPeerDetail(t *testing.T) {
	const tcp = bindings.NetworkNetworkTransportNETWORK_TCP
	remote, loopback := netip.MustParseAddr("192.0.2.80"), netip.MustParseAddr("::1")
	server := peer{role: Client, transport: tcp, address: remote, port: 80, protocol: HTTP}
	known := peer{role: Client, transport: tcp, address: remote, port: 80, pid: 7, service: "shop", local: true, tls: true}
	client := peer{role: Server, transport: tcp, address: remote}
	local := peer{role: Server, transport: tcp, address: loopback, pid: 7, service: "shop"}
	for _, c := range []struct {
		detail requests.PeerDetail
		of     peer
		want   string
	}{
		{requests.PeerService, server, "client tcp ipv4 192.0.2.80 80 http"},
		{requests.PeerService, known, "client tcp ipv4 shop local tls"},
		{requests.PeerService, client, "server tcp ipv4"},
		{requests.PeerService, local, "server tcp ipv6 shop local"},
		{requests.PeerAddress, server, "client tcp ipv4 192.0.2.80 80 http"},
		{requests.PeerAddress, known, "client tcp ipv4 192.0.2.80 80 shop local tls"},
		{requests.PeerAddress, client, "server tcp ipv4 192.0.2.80"},
		{requests.PeerAddress, local, "server tcp ipv6 ::1 shop local"},
		{requests.PeerProcess, known, "client tcp ipv4 192.0.2.80 80 7 shop local tls"},
		{requests.PeerNone, known, "client tcp ipv4 tls"},
		{requests.PeerNone, server, "client tcp ipv4 http"},
		{requests.PeerNone, local, "server tcp ipv6"},
		{requests.PeerService, peer{overflow: true}, "1"},
	} {
		who := reduce(c.of, c.detail)
		var words []string
		for _, a := range who.attributes() {
			word := cmp.Or(a.Value.Text, strconv.FormatInt(a.Value.Int, 10))
			switch a.Key {
			case "ebpf.peer.local":
				word = "local"
			case "ebpf.tls":
				word = "tls"
			}
			words = append(words, word)
		}
		require.Equal(t, c.want, strings.Join(words, " "), "%d %+v", c.detail, c.of)
		require.Equal(t, who, reduce(who, c.detail), "it names a series")
	}
}
