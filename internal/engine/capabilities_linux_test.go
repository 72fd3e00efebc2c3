// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// TestCapabilitiesOfUse holds that CAP_NET_ADMIN is asked for by whoever asks connection tracking, and by nobody else.
func TestCapabilitiesOfUse(t *testing.T) {
	require.Contains(t, Config{Network: &Network{ResolveNAT: true}}.capabilities(), kernel.CapNetAdmin)
	for _, c := range []Config{{}, {Network: &Network{}}} {
		require.Equal(t, []kernel.Capability{
			kernel.CapSysPtrace, kernel.CapDACReadSearch, kernel.CapSyslog, kernel.CapCheckpointRestore,
		}, c.capabilities())
	}
}
