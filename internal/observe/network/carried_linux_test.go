// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

func TestCarried(t *testing.T) {
	const http, dns = uint8(bindings.NetworkNetworkProtocolNETWORK_HTTP1), uint8(bindings.NetworkNetworkProtocolNETWORK_DNS)
	c := make(carried, 2)
	require.Empty(t, c.name(1, 0), "nothing is known")
	c.note(1, 7, http)
	c.note(1, 7, http)
	require.Equal(t, HTTP, c.name(1, 7))
	require.Empty(t, c.name(0, 7), "another series")
	require.Empty(t, c.name(1, 8), "the next series at its slot")
	c.note(1, 7, uint8(bindings.NetworkNetworkProtocolNETWORK_HTTP2))
	require.Equal(t, HTTP, c.name(1, 7), "one protocol in two versions")
	c.note(1, 7, dns)
	require.Empty(t, c.name(1, 7), "it carries several")
	c.note(1, 8, dns)
	require.Equal(t, DNS, c.name(1, 8), "what the former series carried is forgotten")
	c.note(2, 1, http)
	require.Empty(t, c.name(2, 1), "there is no such series")
}
