// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/conntrack"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// TestUnresolvedIsLogged checks that the log says why connection tracking could not be queried, once and not with each report.
func TestUnresolvedIsLogged(t *testing.T) {
	proc, pid := t.TempDir(), os.Getpid()
	for _, dir := range []string{strconv.Itoa(pid) + "/ns", "sys/net/netfilter"} {
		require.NoError(t, os.MkdirAll(filepath.Join(proc, dir), 0o755))
	}
	require.NoError(t, os.Symlink("/proc/self/ns/net", filepath.Join(proc, strconv.Itoa(pid), "ns/net")))
	require.NoError(t, os.WriteFile(filepath.Join(proc, "sys/net/netfilter/nf_conntrack_count"), []byte("many\n"), 0o644))
	nat, err := conntrack.New(conntrack.Config{ProcRoot: proc})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nat.Close()) })
	var own unix.Stat_t
	require.NoError(t, unix.Stat("/proc/self/ns/net", &own))

	core, logs := observer.New(zap.WarnLevel)
	o := &Observer{table: table{ends: ends{nat: nat}}, warnings: warn.NewRarely(zap.New(core), "not resolved", nil)}
	o.warnUnresolved()
	require.Zero(t, logs.Len(), "nothing was asked")
	nat.OtherSides(conntrack.Place{Namespace: own.Ino, PIDs: []uint32{uint32(pid)}}, []conntrack.Flow{{
		Protocol: conntrack.TCP, Local: netip.MustParseAddrPort("10.0.0.1:1"), Remote: netip.MustParseAddrPort("10.0.0.2:2"),
	}})
	require.EqualValues(t, 1, nat.Stats().Failed)
	o.warnUnresolved()
	o.warnUnresolved()
	require.Equal(t, 1, logs.Len())
	require.Contains(t, logs.All()[0].ContextMap()["error"], "reading how many connections are tracked")
}
