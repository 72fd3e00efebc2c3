// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// instances returns a table of service instances without a kernel.
func instances(most int) *table {
	return &table{byInstance: true, owners: map[model.Resource]*owner{}, live: map[uint32]*series{}, kept: kept{most: most}}
}

// add adds a series of a process with a peer that has sent so much.
func (t *table) add(process *model.Process, port uint16, sent uint64, at time.Time) *series {
	s := &series{owner: t.ownerOf(process), started: at, counted: totals{sent: sent}}
	s.enter(t.admit(s, peer{role: Client, address: netip.MustParseAddr("192.0.2.1"), port: port}), at)
	return s
}

// TestCountsOutliveProcesses checks that a service instance keeps what its processes counted, with its start, for keptReports; that a peer
// that comes again later starts anew; and that both are counted.
func TestCountsOutliveProcesses(t *testing.T) {
	table, began := instances(10), time.Unix(1000, 0)
	process := func(pid uint32) *model.Process {
		return &model.Process{ID: model.ProcessID{PID: pid}, ServiceName: "shop", ServiceInstanceID: "a"}
	}
	for pid := range uint32(5) {
		table.leave(table.add(process(pid), 80, 10, began.Add(time.Duration(pid)*time.Minute)))
		table.endRests()
	}
	require.Len(t, table.owners, 1)
	for _, o := range table.owners {
		require.Len(t, o.flows, 1)
		for _, f := range o.flows {
			require.EqualValues(t, 50, f.total().sent)
			require.Equal(t, began, f.start)
		}
	}
	for range keptReports {
		table.endRests()
	}
	require.Empty(t, table.owners)
	require.EqualValues(t, 1, table.kept.retired.Load())
	later := began.Add(time.Hour)
	require.Equal(t, later, table.add(process(9), 80, 10, later).flow.start)
}

// TestKeptSeriesAreBounded checks that series without a process are shared by service instances, and that those are ended first that have
// been without for longest.
func TestKeptSeriesAreBounded(t *testing.T) {
	table, began := instances(10), time.Unix(1000, 0)
	many, few := &model.Process{ServiceName: "many"}, &model.Process{ServiceName: "few"}
	table.leave(table.add(few, 80, 1, began))
	for port := range uint16(30) {
		table.leave(table.add(many, port+1, 1, began))
		table.endRests()
	}
	require.Len(t, table.ownerOf(few).flows, 1)
	require.Len(t, table.ownerOf(many).flows, 9)
	for who := range table.ownerOf(many).flows {
		require.Greater(t, who.port, uint16(21))
	}
	require.EqualValues(t, 21, table.kept.retired.Load())
}

// TestPeersOfInstanceAreBounded checks that a service instance has no more peers than its bound: others count in its overflow series, and
// those that it has keep counting.
func TestPeersOfInstanceAreBounded(t *testing.T) {
	table, began := instances(1000), time.Unix(1000, 0)
	crawler := &model.Process{ServiceName: "crawler"}
	for port := range uint16(3 * mostPeers) {
		table.add(crawler, port+1, 1, began)
	}
	o := table.ownerOf(crawler)
	require.Len(t, o.flows, mostPeers+1)
	require.EqualValues(t, 2*mostPeers, o.flows[peer{overflow: true}].total().sent)
	require.EqualValues(t, 2*mostPeers, table.kept.excess.Load())
	first := table.add(crawler, 1, 1, began)
	require.False(t, first.flow.overflow)
	for range 2 { // its protocol becomes known
		first.move(table.admit(first, peer{role: Client, address: first.flow.address, port: 1, protocol: "http"}), began)
		require.True(t, first.flow.overflow)
		require.EqualValues(t, 2*mostPeers+1, table.kept.excess.Load(), "once")
	}
	table.byInstance = false
	require.False(t, table.add(crawler, 9999, 1, began).flow.overflow)
}

// TestPeerTakesTheSlotOfOneThatEnded checks that the overflow series of an instance does not count as one of its peers.
func TestPeerTakesTheSlotOfOneThatEnded(t *testing.T) {
	table, began := instances(1000), time.Unix(1000, 0)
	crawler := &model.Process{ServiceName: "crawler"}
	first := table.add(crawler, 1, 1, began)
	for port := range uint16(mostPeers) {
		table.add(crawler, port+2, 1, began)
	}
	o, ended := table.ownerOf(crawler), first.flow
	require.Len(t, o.flows, mostPeers+1)
	table.leave(first)
	table.retire(o, ended)
	require.False(t, table.add(crawler, 9000, 1, began).flow.overflow, "the instance has a peer less than it may have")
	require.True(t, table.add(crawler, 9001, 1, began).flow.overflow)
}
