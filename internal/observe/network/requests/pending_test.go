// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// peers are the peers of connections by their series in the kernel.
type peers map[uint32]*Peer

func (p peers) of(series, _ uint32) *Peer { return p[series] }

// countsOf returns the exported number of requests by their peer's service and address.
func countsOf(t *testing.T, totals *Totals) map[string]uint64 {
	t.Helper()
	got := map[string]uint64{}
	for _, of := range totals.Metrics(time.Now(), l7.RoleUnknown) {
		for _, m := range of.Metrics {
			for _, p := range m.Points {
				if m.Name == "http.client.request.duration" {
					list := values(p.Attributes)
					service, _ := list["service.peer.name"].(string)
					address, _ := list["network.peer.address"].(string)
					if list["otel.metric.overflow"] != nil {
						service = "overflow"
					}
					got[service+address] += p.Histogram.Count
				}
			}
		}
	}
	return got
}

// TestPeers checks that requests count for the peer of their connection, including those that ended before it was known, and that a peer that
// stays unknown is left out at the second report.
func TestPeers(t *testing.T) {
	known := peers{}
	totals := NewTotals(Redaction{})
	totals.ByPeer(known.of)
	totals.ByInstance()
	one := observe.SubjectKey{PID: 1}
	ask := func(series uint32) {
		totals.Add(Connection{Subject: one, Series: series}, exchange(l7.RoleClient, "/", 200, 1))
	}
	ask(1)
	ask(1)
	ask(2)
	ask(3)
	named(totals, map[observe.SubjectKey]*model.Process{one: {}})
	require.Empty(t, countsOf(t, totals), "no peer is known")
	require.EqualValues(t, 3*seriesBytes, totals.Bytes())

	shop := Peer{Service: "shop", Transport: "tcp"}
	known[1], known[2] = &shop, &Peer{Address: netip.MustParseAddr("192.0.2.1")}
	totals.NamePeers()
	require.Equal(t, map[string]uint64{"shop": 2, "192.0.2.1": 1}, countsOf(t, totals))
	require.EqualValues(t, 3*seriesBytes, totals.Bytes(), "one waits")
	ask(1)
	known[2] = &shop // more is known of it now
	ask(2)
	totals.NamePeers()
	require.Equal(t, map[string]uint64{"shop": 4, "192.0.2.1": 1, "": 1}, countsOf(t, totals))
	require.Zero(t, totals.pending)
	require.Equal(t, 3, totals.series)
	totals.NamePeers()
	require.Equal(t, map[string]uint64{"shop": 4, "192.0.2.1": 1, "": 1}, countsOf(t, totals), "all of it once")
}

// TestPendingIsBounded checks that a server with a connection for each request keeps to its memory, and that no request is lost by that.
func TestPendingIsBounded(t *testing.T) {
	known := peers{}
	totals := NewTotals(Redaction{})
	totals.ByPeer(known.of)
	totals.Bound(1)
	most := minSeries * pendingShare
	for i := range 2 * most {
		totals.Add(Connection{Subject: observe.SubjectKey{PID: uint32(i % 2)}, Series: uint32(i)}, exchange(l7.RoleClient, "/", 200, 1))
		known[uint32(i)] = &Peer{Service: "shop"}
	}
	require.Equal(t, most, totals.pending)
	totals.Name(func(of observe.SubjectKey) (*model.Process, bool) {
		if of.PID == 0 {
			return nil, true // out of scope
		}
		return &model.Process{}, true
	})
	require.Equal(t, most/2, totals.pending)
	totals.NamePeers()
	require.Zero(t, totals.pending)
	require.Equal(t, map[string]uint64{"shop": uint64(most / 2), "": uint64(most / 2)}, countsOf(t, totals))
	require.EqualValues(t, most/2, totals.Unnamed().Peers)
}
