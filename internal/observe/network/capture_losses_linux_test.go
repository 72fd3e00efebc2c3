// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestWhatHasNoNameOfItsOwnIsCounted checks that requests, calls and lookups beyond the routes, hosts, methods and names of their process are
// among the losses, as partial.
func TestWhatHasNoNameOfItsOwnIsCounted(t *testing.T) {
	const slots, more = 200, 7 // as docs/reference/network.md has it
	c := newCapture(Config{}, &ring{}, &table{})
	for i := range slots + more {
		conn := requests.Connection{Subject: observe.SubjectKey{PID: 1}}
		known, word := l7.Side{Known: true, Ended: true}, fmt.Sprintf("%c%c", 'a'+i/26, 'a'+i%26)
		page := &httpexchange.Exchange{Method: "GET", Path: []byte("/" + word), Status: 200}
		c.totals.Add(conn, &l7.Exchange{Role: l7.RoleServer, Request: known, Response: known, Operation: page})
		c.totals.Add(conn, &l7.Exchange{Role: l7.RoleServer, Request: known, Response: known, Operation: &grpccall.Call{Exchange: page, Service: []byte("s"), Name: []byte(word), Status: "OK"}})
		c.totals.Add(conn, &l7.Exchange{Role: l7.RoleClient, Request: known, Response: known, Operation: &httpexchange.Exchange{Method: "GET", Host: []byte(word), Path: []byte("/aa"), Status: 200}})
		c.totals.Add(conn, &l7.Exchange{Role: l7.RoleClient, Request: known, Response: known, Operation: &dns.Exchange{Questions: []dns.Question{{Name: []byte(word)}}}})
	}
	c.totals.Name(func(observe.SubjectKey) (*model.Process, bool) { return &model.Process{}, true })
	lost := map[string]observe.Loss{}
	for _, l := range c.losses() {
		lost[l.Reason] = l
	}
	for _, reason := range []string{"request_routes_full", "request_hosts_full", "call_methods_full", "lookup_names_full"} {
		require.Equal(t, observe.Loss{Probe: "network", Reason: reason, Count: more, Incomplete: true}, lost[reason])
	}
}

// lostInAll returns how much was lost for a reason, with all processes in scope.
func (c *capture) lostInAll(reason requests.LossReason) uint64 {
	c.lost.Decide(func(observe.SubjectKey) bool { return true })
	return c.lost.Of(reason)
}
