// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// TestProtocolNumbers checks that the list of protocols has the numbers of the BPF programs, by the names there: NETWORK_HTTP2 is http2. The
// name of the first version of a protocol may have its number, such as NETWORK_HTTP1.
func TestProtocolNumbers(t *testing.T) {
	spec, err := bindings.LoadNetwork()
	require.NoError(t, err)
	var numbers *btf.Enum
	require.NoError(t, spec.Types.TypeByName("network_protocol", &numbers))
	names := map[uint64]string{}
	for _, v := range numbers.Values {
		names[v.Value] = strings.ToLower(strings.TrimPrefix(v.Name, "NETWORK_"))
	}
	require.Equal(t, "http1", names[1])
	for _, d := range protocols {
		require.Equal(t, d.Name, strings.TrimSuffix(names[uint64(d.Number)], "1"), "of %d", d.Number)
		require.Less(t, uint64(d.Number), uint64(bindings.NetworkNetworkProtocolNETWORK_UNPARSED))
	}
}
