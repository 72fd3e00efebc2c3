// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestWhatHasNoNameOfItsOwnIsCounted holds that requests, calls and lookups beyond the routes, hosts, methods and names of their process are told
// among the losses, as what was told nevertheless.
func TestWhatHasNoNameOfItsOwnIsCounted(t *testing.T) {
	const places, more = 200, 7 // as docs/network.md has it
	c := newCapture(Config{}, &ring{}, &table{})
	for i := range places + more {
		whom := requests.Whom{Subject: observe.SubjectKey{PID: 1}}
		known, word := l7.Side{Known: true, Ended: true}, fmt.Sprintf("%c%c", 'a'+i/26, 'a'+i%26)
		page := &l7.HTTP{Method: "GET", Path: []byte("/" + word), Status: 200}
		c.totals.Add(whom, &l7.Exchange{Role: l7.RoleServer, Request: known, Response: known, HTTP: page})
		c.totals.Add(whom, &l7.Exchange{Role: l7.RoleServer, Request: known, Response: known, HTTP: page, GRPC: &l7.GRPC{Service: []byte("s"), Method: []byte(word), Status: "OK"}})
		c.totals.Add(whom, &l7.Exchange{Role: l7.RoleClient, Request: known, Response: known, HTTP: &l7.HTTP{Method: "GET", Host: []byte(word), Path: []byte("/aa"), Status: 200}})
		c.totals.Add(whom, &l7.Exchange{Role: l7.RoleClient, Request: known, Response: known, DNS: &l7.DNS{Questions: []l7.DNSQuestion{{Name: []byte(word)}}}})
	}
	c.tellLosses()
	lost := map[string]observe.Loss{}
	for _, l := range c.losses() {
		lost[l.Reason] = l
	}
	for _, reason := range []string{"request_routes_full", "request_hosts_full", "call_methods_full", "lookup_names_full"} {
		require.Equal(t, observe.Loss{Probe: "network", Reason: reason, Count: more, Told: true}, lost[reason])
	}
}
