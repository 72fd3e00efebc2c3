// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"math"
	"net/netip"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		megabytes uint64
		cpus      int
		want      plan
	}{
		{0, 2, plan{series: minSeries, shards: 1, sockets: minSockets}},
		{8, 2, plan{series: 2139, shards: 1, sockets: minSockets}},
		{16, 2, plan{series: 2811, shards: 2, sockets: minSockets}},
		{16, 128, plan{series: 2811, shards: 2, sockets: minSockets}},
		{256, 128, plan{series: 7749, shards: 16, sockets: minSockets}},
		{4096, 1, plan{series: maxSeries, shards: 1, sockets: minSockets}},
	} {
		got := newPlan(Config{MapBytes: c.megabytes << 20}, features{}, c.cpus)
		c.want.ends = minEnds
		require.Equal(t, c.want, got, "%d MiB, %d CPUs", c.megabytes, c.cpus)
		if got.series > minSeries {
			rest := got.bytes(features{socketStorage: true, taskStorage: true}) - minEnds*endBytes
			require.LessOrEqual(t, rest, c.megabytes<<20/tableShare)
		}
	}
	many := newPlan(Config{SocketBytes: 64 << 20}, features{}, 1)
	require.EqualValues(t, (64<<20)*16/(304*16+160), many.sockets)
	require.Equal(t, many.sockets/16, many.ends)
	require.LessOrEqual(t, many.sockets*socketBytes+many.ends*endBytes, uint32(64<<20))
}

// TestPlanOfListedSockets checks how many sockets are remembered and listed in 64 MiB, and what the list takes from the start.
func TestPlanOfListedSockets(t *testing.T) {
	for _, c := range []struct {
		has           features
		sockets, list uint32
		bytes         uint64
	}{
		{features{socketStorage: true, allocates: true}, 213722, 1, 0},
		{features{socketStorage: true, allocates: true, listed: true}, 151830, 151830, 16 << 18},
		{features{socketStorage: true, listed: true}, 65536, 65536, 16<<16 + 96*65536},
		{features{listed: true}, 213722, 65536, 16<<16 + 96*65536},
		{features{listed: true, allocates: true}, 213722, 65536, 16 << 16},
	} {
		got := newPlan(Config{SocketBytes: 64 << 20}, c.has, 1)
		require.Equal(t, c.sockets, got.sockets, "%+v", c.has)
		require.Equal(t, c.list, got.listSize(c.has), "%+v", c.has)
		require.Equal(t, c.bytes, got.listBytes(c.has), "%+v", c.has)
		require.LessOrEqual(t, uint64(got.sockets)*c.has.bytesOfSocket()+uint64(got.ends)*endBytes, uint64(64<<20))
		without := c.has
		without.listed = false
		require.Equal(t, c.bytes, got.bytes(c.has)-got.bytes(without))
	}
}

func TestAttributes(t *testing.T) {
	client := peer{
		role: Client, transport: bindings.NetworkNetworkTransportNETWORK_TCP, address: netip.MustParseAddr("2001:db8::1"),
		port: 443, pid: 7, service: "shop",
	}
	require.Equal(t, []model.Attribute{
		model.Text("ebpf.role", "client"), model.Text("network.transport", "tcp"), model.Text("network.type", "ipv6"),
		model.Text("network.peer.address", "2001:db8::1"), model.Int("network.peer.port", 443), model.Int("ebpf.peer.pid", 7),
		model.Text("service.peer.name", "shop"),
	}, client.attributes())
	local := peer{transport: bindings.NetworkNetworkTransportNETWORK_UNIX}
	require.Equal(t, []model.Attribute{model.Text("network.transport", "unix")}, local.attributes())
	rest := peer{overflow: true, role: Client}
	require.Equal(t, []model.Attribute{model.Bool("otel.metric.overflow", true)}, rest.attributes())
}

func TestAddresses(t *testing.T) {
	for _, text := range []string{"192.0.2.1", "2001:db8::1", "::"} {
		address := netip.MustParseAddr(text)
		family := uint8(6)
		if address.Is4() {
			family = 4
		}
		require.Equal(t, address, addressOf(family, words(address)))
	}
	require.False(t, addressOf(0, [4]uint32{}).IsValid())
}

func TestTotals(t *testing.T) {
	var one, two totals
	one.received, two.received = 1, 2
	one.drops, two.drops = map[uint16]uint64{3: 4}, map[uint16]uint64{3: 5, 6: 7}
	*one.at(rttTimes) = histogram{sum: 10, most: 10, least: ^uint64(10)}
	one.times[rttTimes].buckets[0] = 1
	*two.at(rttTimes) = histogram{sum: 2000 + 30_000_000_000, most: 30_000_000_000, least: ^uint64(2000)}
	two.times[rttTimes].buckets[1], two.times[rttTimes].buckets[22] = 1, 1
	before := one.copy()
	var sum totals
	sum.add(&one)
	sum.add(&two)
	require.EqualValues(t, 3, sum.received)
	require.Equal(t, map[uint16]uint64{3: 9, 6: 7}, sum.drops)
	require.Equal(t, *before, one, "what was added is as it was")
	got := value(sum.times[rttTimes], bounds)
	require.EqualValues(t, 3, got.Count)
	require.InDelta(t, 30.00000201, got.Sum, 1e-12)
	require.InDelta(t, 1e-8, got.Min, 1e-15)
	require.InDelta(t, 30, got.Max, 1e-12)
	require.Len(t, got.Buckets, len(bounds)+1)
	require.Equal(t, []uint64{1, 1}, got.Buckets[:2])
	require.EqualValues(t, 1, got.Buckets[len(bounds)], "more than the last bound")
	require.Nil(t, value(&histogram{}, bounds))
	require.Nil(t, value(nil, bounds))

	sum.subtract(&one)
	require.EqualValues(t, 2, sum.received)
	require.EqualValues(t, 2, sum.times[rttTimes].count())
	require.Equal(t, map[uint16]uint64{3: 5, 6: 7}, sum.drops)
	require.EqualValues(t, 1, one.times[rttTimes].count(), "what was taken away is as it was")
}

// TestTotalsTakeRecords checks that what the kernel has recorded is taken once, also if its buckets have wrapped.
func TestTotalsTakeRecords(t *testing.T) {
	var counted totals
	var both record
	shards := [2]record{{Received: 5}, {Received: 6}}
	read := func() *record {
		both = record{}
		addRecord(&both, &shards[0])
		addRecord(&both, &shards[1])
		return &both
	}
	write := &shards[1].Operations[bindings.NetworkNetworkOperationNETWORK_WRITE]
	require.False(t, counted.same(read()))
	counted.take(read())
	require.True(t, counted.same(read()))
	require.EqualValues(t, 11, counted.received)
	require.Equal(t, [allTimes]*histogram{}, counted.times, "nothing was timed, and nothing is held for it")
	require.Zero(t, counted.bytes())

	write.Buckets[3], write.Sum, write.Most, write.Least = math.MaxUint32-1, 7, 4, ^uint64(3)
	shards[0].Operations[bindings.NetworkNetworkOperationNETWORK_WRITE].Least = ^uint64(9)
	require.False(t, counted.same(read()))
	counted.take(read())
	require.EqualValues(t, math.MaxUint32-1, counted.calls())
	require.NotZero(t, counted.bytes())
	write.Buckets[3] += 5 // and so it has wrapped
	shards[0].Operations[bindings.NetworkNetworkOperationNETWORK_WRITE].Buckets[3] = 2
	require.False(t, counted.same(read()))
	counted.take(read())
	require.True(t, counted.same(read()))
	require.EqualValues(t, math.MaxUint32-1+5+2, counted.calls())
	times := counted.times[operationTimes+int(bindings.NetworkNetworkOperationNETWORK_WRITE)]
	require.Equal(t, []uint64{7, 4, ^uint64(3)}, []uint64{times.sum, times.most, times.least})
	require.Nil(t, counted.times[rttTimes])
}

// TestExtremesAreWithinBuckets checks that a minimum and a maximum that the kernel has not written yet, or has overwritten, are exported
// within the buckets.
func TestExtremesAreWithinBuckets(t *testing.T) {
	h := histogram{sum: 3000}
	h.buckets[1] = 1
	got := value(&h, bounds)
	require.Equal(t, []float64{2e-6, 1e-6}, []float64{got.Min, got.Max}, "nothing is written yet")
	h.buckets[3] = 1
	h.most, h.least = 1500, ^uint64(1500) // another CPU's 7 µs were overwritten
	got = value(&h, bounds)
	require.Equal(t, []float64{1.5e-6, 5e-6}, []float64{got.Min, got.Max})
	h.buckets[22] = 1
	h.most = 40_000_000_000
	require.InDelta(t, 40, value(&h, bounds).Max, 1e-12)
}

func TestReasons(t *testing.T) {
	reasons := newDropReasons(map[string]uint64{"SKB_DROP_REASON_NO_SOCKET": 3, "SKB_NOT_DROPPED_YET": 0, "SKB_DROP_REASON_SUBSYS_MASK": 0xffff0000})
	require.Equal(t, "NO_SOCKET", reasons.name(3))
	require.Equal(t, "reason 9", reasons.name(9))
	require.Equal(t, "SUBSYSTEM", reasons.name(0xffff))
	require.Equal(t, "NOT_SPECIFIED", newDropReasons(nil).name(0))
	require.Equal(t, "ECONNREFUSED", errorType(111))
	require.Equal(t, "aborted", errorType(0))
	require.Equal(t, "errno 9999", errorType(9999))
}

// TestStatesGoDown checks that a state that was exported is exported with 0 when no connection is in it any more, and no state before.
func TestStatesGoDown(t *testing.T) {
	f := newFlow(peer{role: Server}, time.Now())
	f.open[1] = 5
	exported := func() map[string]int64 {
		b := builder{points: map[*model.Descriptor][]model.Point{}}
		b.flow(f, &totals{})
		counts := map[string]int64{}
		for _, p := range b.points[connectionMetric] {
			counts[p.Attributes[len(p.Attributes)-1].Value.Text] = p.Int
		}
		return counts
	}
	require.Equal(t, map[string]int64{"established": 5}, exported())
	f.open[1], f.open[8] = 0, 2
	require.Equal(t, map[string]int64{"established": 0, "close_wait": 2}, exported())
}

func TestSkew(t *testing.T) {
	require.Zero(t, skewOf(1e9, 1e9))
	require.EqualValues(t, 1<<32/1000, skewOf(1_001_000_000, 1_000_000_000))
	require.EqualValues(t, -(1 << 32 / 1000), skewOf(999_000_000, 1_000_000_000))
}

// TestOnlyOneRole checks that the other role is left out if one is configured, and that points without a role are not.
func TestOnlyOneRole(t *testing.T) {
	o := &owner{flows: map[peer]*flow{}}
	for _, role := range []Role{NoRole, Client, Server} {
		f := newFlow(peer{role: role}, time.Now())
		f.members = []*series{{}}
		f.members[0].counted.sent = 1 + uint64(role)
		o.flows[f.peer] = f
	}
	over := table{owners: map[model.Resource]*owner{{}: o}}
	for only, want := range map[Role]int64{NoRole: 1 + 2 + 3, Client: 1 + 2, Server: 1 + 3} {
		var sum int64
		for _, m := range over.metrics(time.Now(), nil, only) {
			for _, p := range m.Metrics[0].Points {
				sum += p.Int
			}
		}
		require.Equal(t, want, sum, "%d", only)
	}
}

// TestFold checks that each of the kernel's buckets counts below the reported bound that it lies below, so that each bound is exact.
func TestFold(t *testing.T) {
	for _, bound := range reportedBounds {
		require.Contains(t, bounds, bound)
	}
	for _, reported := range [][]float64{reportedBounds, nil} {
		for i := range len(bounds) + 1 {
			h := &model.Histogram{Buckets: make([]uint64, len(bounds)+1)}
			h.Buckets[i] = 5
			fold(h, reported)
			want := make([]uint64, len(reported)+1)
			if i == len(bounds) {
				want[len(reported)] = 5
			} else {
				want[sort.SearchFloat64s(reported, bounds[i])] = 5
			}
			require.Equal(t, want, h.Buckets, "bucket %d", i)
			require.Equal(t, reported, h.Bounds)
		}
	}
}
