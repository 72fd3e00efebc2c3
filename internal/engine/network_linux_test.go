// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// lastSum is a metric in the last report of a process, summed over the points that have all these attributes.
func (o *observed) lastSum(pid int, metric string, wanted ...model.Attribute) (sum int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var last *model.Metrics
	for _, m := range o.metrics {
		if m.Process != nil && m.Process.ID.PID == uint32(pid) {
			last = m
		}
	}
	if last == nil {
		return 0
	}
	for _, m := range last.Metrics {
		for _, p := range m.Points {
			if m.Name == metric && hasAll(p.Attributes, wanted) {
				sum += p.Int
			}
		}
	}
	return sum
}

func hasAll(attributes, wanted []model.Attribute) bool {
	has := map[model.Attribute]bool{}
	for _, a := range attributes {
		has[a] = true
	}
	for _, a := range wanted {
		if !has[a] {
			return false
		}
	}
	return true
}

// TestNetwork holds that processes in scope are reported with their bytes and their peers, by name where the peer is in scope,
// sockets from before the start included, and that nothing is reported of others.
func TestNetwork(t *testing.T) {
	needRoot(t)
	guest.TakesLong(t)
	const amount = 1<<20 + 7
	n := nettest.New(t)
	client, server, outsider := nettest.Start(t, n), nettest.Start(t, n), nettest.Start(t, n)
	l := server.Listen("tcp4", netip.MustParseAddrPort("127.0.0.1:0"))
	before := client.Dial("tcp4", l.Local)
	accepted := l.Accept()

	config := configuration(time.Second, process.Selector{PID: uint32(client.PID())},
		process.Selector{PID: uint32(server.PID()), Set: map[string]string{"service.name": "shop"}})
	config.Observe = []observe.Plan{&network.Plan{Common: observe.Common{ReportInterval: time.Second}, ResolveNAT: true}}
	o := begin(t, config)
	require.Eventually(t, func() bool { // what is open is found when it is known who is in scope
		established := model.Text("network.connection.state", "established")
		return o.lastSum(client.PID(), "ebpf.network.connections", established) > 0 && o.lastSum(server.PID(), "ebpf.network.connections", established) > 0
	}, time.Minute, 10*time.Millisecond)

	nettest.Carry(before, nettest.Transfer{How: "write", Bytes: amount}, accepted, nettest.Transfer{How: "read", Bytes: amount})
	outside := outsider.Dial("tcp4", l.Local)
	inside := l.Accept()
	nettest.Carry(outside, nettest.Transfer{How: "write", Bytes: amount}, inside, nettest.Transfer{How: "read", Bytes: amount})
	o.end()

	sent, received := model.Text("network.io.direction", "transmit"), model.Text("network.io.direction", "receive")
	require.EqualValues(t, amount, o.lastSum(client.PID(), "ebpf.network.io", sent, model.Text("ebpf.role", "client"),
		model.Text("service.peer.name", "shop"), model.Int("ebpf.peer.pid", int64(server.PID()))))
	require.EqualValues(t, amount, o.lastSum(server.PID(), "ebpf.network.io", received, model.Text("ebpf.role", "server"),
		model.Int("ebpf.peer.pid", int64(client.PID()))))
	require.EqualValues(t, 2*amount, o.lastSum(server.PID(), "ebpf.network.io", received))
	require.Zero(t, o.lastSum(outsider.PID(), "ebpf.network.io"))
	require.Zero(t, o.lastSum(server.PID(), "ebpf.network.io", model.Int("ebpf.peer.pid", int64(outsider.PID()))), "it is out of scope")
}

// TestWithoutStacksNothingIsOpened holds that binaries are opened for the names of functions only of those processes whose
// user stacks are taken.
func TestWithoutStacksNothingIsOpened(t *testing.T) {
	needRoot(t)
	p := nettest.Start(t, nettest.New(t))
	for _, stacks := range []bool{false, true} {
		config := configuration(10*time.Millisecond, process.Selector{PID: uint32(p.PID())})
		config.Observe = append(config.Observe, &network.Plan{Common: observe.Common{ReportInterval: 200 * time.Millisecond}})
		if !stacks {
			config.Observe = config.Observe[1:] // without on_cpu
		}
		o := begin(t, config)
		a, b := p.SocketPair()
		a.Write(nettest.Transfer{How: "write", Bytes: 100})
		b.Read(nettest.Transfer{How: "read", Bytes: 100})
		require.Eventually(t, func() bool {
			return o.lastSum(p.PID(), "ebpf.network.io", model.Text("network.io.direction", "transmit")) == 100
		}, time.Minute, 10*time.Millisecond)
		if stacks {
			require.Eventually(t, func() bool { return o.opened(p.PID()) }, time.Minute, 10*time.Millisecond)
		}
		require.Equal(t, stacks, o.opened(p.PID()))
		o.end()
	}
}

// opened reports whether the mappings of a process were read.
func (o *observed) opened(pid int) bool {
	o.subjects.mu.Lock()
	defer o.subjects.mu.Unlock()
	for key, known := range o.subjects.known {
		if key.PID == uint32(pid) && known.space.Load() != nil {
			return true
		}
	}
	return false
}

// TestNetworkOfAnInstance holds that a task about an instance of a service observes who joins it later, after those have left who
// were there when it began, and no process of another instance.
func TestNetworkOfAnInstance(t *testing.T) {
	guest.SameOnEveryKernel(t)
	needRoot(t)
	n := nettest.New(t)
	of := func(instance string) *nettest.Program {
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,service.instance.id="+instance)
		return nettest.Start(t, n)
	}
	e := begin(t, onDemand())
	identity := func(p *nettest.Program) *model.Process {
		known, inScope, err := e.table.LookupPID(uint32(p.PID()))
		require.NoError(t, err)
		require.True(t, inScope)
		return known
	}
	first := of("one")
	known := identity(first)
	started, err := e.Start(task.Spec{
		TaskID: "instance", Options: &network.Plan{Common: observe.Common{ReportInterval: 200 * time.Millisecond}}, Processes: []*model.Process{known}, Instance: true,
	})
	require.NoError(t, err)
	joined, other := of("one"), of("another")
	require.True(t, started.Covers(identity(joined).ID))
	require.False(t, started.Covers(identity(other).ID))
	require.Len(t, started.Living(), 2)
	first.End()
	require.Eventually(t, func() bool {
		for _, p := range []*nettest.Program{joined, other} {
			a, b := p.SocketPair()
			a.Write(nettest.Transfer{How: "write", Bytes: 100})
			b.Read(nettest.Transfer{How: "read", Bytes: 100})
		}
		return e.lastSum(joined.PID(), "ebpf.network.io") > 0
	}, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool { return len(started.Living()) == 1 }, patience, 50*time.Millisecond, "its end is known")
	require.Equal(t, identity(joined).ID, started.Living()[0].ID)
	_, err = started.Stop()
	require.NoError(t, err)
	require.Zero(t, e.lastSum(other.PID(), "ebpf.network.io"))
	for _, m := range e.metrics {
		require.Equal(t, "instance", m.TaskID)
	}
}
