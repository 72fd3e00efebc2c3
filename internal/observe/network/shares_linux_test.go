// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

func TestFairLevel(t *testing.T) {
	for _, c := range []struct {
		wants []int
		all   int
		want  int
	}{
		{nil, 100, 100},
		{[]int{10, 20}, 100, 90}, // each may take all that is left
		{[]int{100}, 100, 100},
		{[]int{1000}, 100, 100},
		{[]int{1000, 1000, 10}, 100, 45},
		{[]int{1000, 30, 1000, 10}, 100, 30},
		{[]int{5, 5, 5}, 2, 1}, // one at the least
	} {
		require.Equal(t, c.want, fairLevel(c.wants, c.all), "%v of %d", c.wants, c.all)
	}
}

// TestSharesOfSeries checks that a process with more peers than there are series leaves the others theirs, that all of its bytes are counted,
// and that it has the series back when the others have exited. The host's other processes are out of scope, so that they have series only
// until the next report.
func TestSharesOfSeries(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const peers, honest, rounds = 300, 5, 6
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	own := w.restrictToOwn()
	n := nettest.New(t)
	receiver := nettest.Start(t, n)
	own.pids[uint32(receiver.PID())] = true
	server := receiver.Listen("udp4", netip.MustParseAddrPort("0.0.0.0:0"))
	send := func(from *nettest.Socket, to, bytes int) {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(1 + to/250), byte(1 + to%250)}), server.Local.Port())
		from.Write(nettest.Transfer{How: "sendto", Bytes: int64(bytes), Chunk: bytes, To: at, Once: true})
	}
	start := func() *nettest.Socket {
		program := nettest.Start(t, n)
		own.pids[uint32(program.PID())] = true
		return program.Listen("udp4", netip.MustParseAddrPort("127.0.0.1:0"))
	}
	many := start()
	sent, got, last := map[*nettest.Socket]int64{}, map[*nettest.Socket]int64{}, map[string]int64{}
	report := func() { // adds up increases, as a backend does
		w.report()
		for of := range sent {
			for _, p := range w.points(of.Program(), "ebpf.network.io", "network.io.direction=transmit") {
				key := fmt.Sprint(of.Program().PID(), p.Attributes, p.Start.UnixNano())
				require.GreaterOrEqual(t, p.Int, last[key], key)
				got[of] += p.Int - last[key]
				last[key] = p.Int
			}
		}
	}
	round := func(of *nettest.Socket, peers int) {
		for to := range peers {
			send(of, to, 10)
			sent[of] += 10
		}
	}
	named := func(of *nettest.Socket) int {
		return len(w.points(of.Program(), "ebpf.network.io", "ebpf.role=client"))
	}
	round(many, peers)
	report()
	require.Positive(t, w.loss("series_full"))
	few := start()
	before := 0
	for ; named(few) < honest; before++ {
		require.Less(t, before, 10, "rounds until each peer has a series")
		round(many, peers)
		round(few, honest)
		report()
		require.True(t, before == 0 || own.others > 0, "a round is enough where no other process takes series")
		if own.others > 0 { // what fits in no series counts for the host
			require.LessOrEqual(t, got[few], sent[few])
			sent[few] = got[few]
		}
	}
	overflow := w.sum(few.Program(), "ebpf.network.io", "otel.metric.overflow=true")
	peer := func(to int) int64 {
		return w.sum(few.Program(), "ebpf.network.io", fmt.Sprintf("network.peer.address=127.0.1.%d", 1+to))
	}
	first := make([]int64, honest)
	for to := range honest {
		first[to] = peer(to)
	}
	for range rounds {
		round(many, peers)
		round(few, honest)
		report()
	}
	report() // of what has left
	require.Equal(t, sent, got, "what was exported is what was sent")
	require.Equal(t, honest, named(few), "each peer has a series")
	for to := range honest {
		require.EqualValues(t, rounds*10, peer(to)-first[to])
	}
	require.Equal(t, overflow, w.sum(few.Program(), "ebpf.network.io", "otel.metric.overflow=true"))
	require.Greater(t, named(many), honest)
}

// TestSharesAreCorrectedBeforeTheyBind checks that the kernel refuses no process a series because of a count of series that it no longer has.
func TestSharesAreCorrectedBeforeTheyBind(t *testing.T) {
	guest.SameOnEveryKernel(t)
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	stale, many := bindings.NetworkNetworkProcess{Pid: 1 << 30, StartBoottime: 1}, uint32(1000)
	require.NoError(t, w.table.shares.counts.Put(&stale, &many))
	set, bound := w.table.shares.allowed, 0
	w.table.shares.allowed = func(level any) error {
		bound++
		require.ErrorIs(t, w.table.shares.counts.Lookup(&stale, &many), ebpf.ErrKeyNotExist)
		return set(level)
	}
	w.table.shares.sharing = true
	for id := uint32(1); len(w.table.live) < len(w.table.slots.items)/2; id++ { // enough to be shared
		w.table.live[1<<20+id] = &series{id: 1<<20 + id, key: key{Pid: 7, Port: uint16(id)}}
	}
	require.NoError(t, w.table.share())
	require.Positive(t, bound)
	for id := range w.table.live {
		if id > 1<<20 {
			delete(w.table.live, id)
		}
	}
}

// TestSharesOfMoreProcessesThanAreCounted checks that processes that have begun meanwhile and fill the kernel's counts are no error, and that
// the process with most series is counted.
func TestSharesOfMoreProcessesThanAreCounted(t *testing.T) {
	guest.SameOnEveryKernel(t)
	small := config()
	small.MapBytes = 0
	w := watch(t, small, nil)
	counts := w.table.shares.counts
	full, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: counts.KeySize(), ValueSize: counts.ValueSize(), MaxEntries: 1})
	require.NoError(t, err)
	w.table.shares.counts = full
	defer func() {
		w.table.shares.counts = counts
		require.NoError(t, full.Close())
	}()
	taken := map[bindings.NetworkNetworkProcess][]*series{}
	for pid := range uint32(50) {
		taken[bindings.NetworkNetworkProcess{Pid: pid, StartBoottime: 1}] = make([]*series, 1+pid)
	}
	require.NoError(t, w.table.writeShares(taken, 100))
	var count uint32
	require.NoError(t, full.Lookup(&bindings.NetworkNetworkProcess{Pid: 49, StartBoottime: 1}, &count))
	require.EqualValues(t, 50, count)
}
