// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
)

// TestCapabilitiesOfUse holds that CAP_NET_ADMIN is required where connection tracking is used, and nowhere else.
func TestCapabilitiesOfUse(t *testing.T) {
	require.Contains(t, Config{Observe: []observe.Plan{&network.Plan{ResolveNAT: true}}}.capabilities(), kernel.CapNetAdmin)
	for _, c := range []Config{{}, {Observe: []observe.Plan{&network.Plan{}}}} {
		require.Equal(t, []kernel.Capability{
			kernel.CapSysPtrace, kernel.CapDACReadSearch, kernel.CapSyslog, kernel.CapCheckpointRestore,
		}, c.capabilities())
	}
}
