// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestPowers checks that the kernel's bounds are powers of two of a second: a number of ns is at most the one exactly where it is at most the other.
func TestPowers(t *testing.T) {
	source, err := os.ReadFile("../../../bpf/include/network_series.h")
	require.NoError(t, err)
	_, list, found := strings.Cut(string(source), "network_powers[NETWORK_BUCKETS - 1] = {")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "}")
	numbers := regexp.MustCompile(`(\d+)ULL`).FindAllStringSubmatch(list, -1)
	require.Len(t, numbers, len(powers))
	for i, number := range numbers {
		ns, err := strconv.ParseUint(number[1], 10, 64)
		require.NoError(t, err)
		require.Equal(t, uint64(math.Floor(powers[i]*1e9)), ns)
	}
	require.InDelta(t, 32, powers[len(powers)-1], 0)
}

// TestToExponential checks which values each of the kernel's buckets stands for.
func TestToExponential(t *testing.T) {
	h := histogram{sum: 3_000_004_000, most: 3_000_000_000, least: ^uint64(4000)}
	h.buckets[0], h.buckets[19] = 1, 2 // up to 2^-17 s, and from 2 s to 4 s
	got := value(&h, powers)
	toExponential(got)
	require.Equal(t, &model.Histogram{
		Count: 3, Sum: 3.000004, Min: 4e-6, Max: 3, Buckets: []uint64{2},
		Exponential: &model.Exponential{Offset: 1, ZeroCount: 1, ZeroThreshold: math.Ldexp(1, -17)},
	}, got)
	for i := 1; i < len(h.buckets); i++ {
		h = histogram{}
		h.buckets[i] = 1
		got := value(&h, powers)
		toExponential(got)
		require.Equal(t, []uint64{1}, got.Buckets)
		require.InDelta(t, powers[i-1], math.Ldexp(1, int(got.Exponential.Offset)), 0, "the lower bound")
		require.GreaterOrEqual(t, got.Min, powers[i-1])
	}
	h = histogram{}
	h.buckets[0] = 7
	got = value(&h, powers)
	toExponential(got)
	require.Empty(t, got.Buckets)
	require.EqualValues(t, 7, got.Exponential.ZeroCount)
}

// TestExponentialTimes checks that the kernel counts times in the buckets that they lie in: waits of known length, and handshakes between their least
// and their most.
func TestExponentialTimes(t *testing.T) {
	guest.SameOnEveryKernel(t)
	exponential := config()
	exponential.ExponentialHistograms = true
	w := watch(t, exponential, nil)
	n := nettest.New(t)
	server, client := nettest.Start(t, n), nettest.Start(t, n)
	l := server.Listen("tcp4", loopback)
	from := client.Dial("tcp4", l.Local)
	to := l.Accept()
	read := make(chan nettest.Outcome)
	go func() { read <- to.Read(nettest.Transfer{How: "read", Bytes: 100}) }()
	to.Waits()
	const waits = 600 * time.Millisecond
	client.Sleep(waits)
	from.Write(nettest.Transfer{How: "write", Bytes: 100})
	took := (<-read).Took
	w.report()
	waited := w.histogram(server, "ebpf.network.wait.duration", "ebpf.operation=read")
	require.EqualValues(t, 1, waited.Count)
	require.GreaterOrEqual(t, waited.Sum, waits.Seconds()-0.1)
	require.Less(t, waited.Sum, took.Seconds())
	for _, h := range []*model.Histogram{
		waited, w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=connect"), w.histogram(client, "ebpf.tcp.rtt"),
		w.histogram(client, "ebpf.network.operation.duration", "ebpf.operation=write"),
	} {
		require.NotNil(t, h.Exponential)
		require.Zero(t, h.Exponential.Scale)
		all := h.Exponential.ZeroCount
		for _, n := range h.Buckets {
			all += n
		}
		require.Equal(t, h.Count, all)
		if h.Count != 1 {
			continue
		}
		if h.Sum <= h.Exponential.ZeroThreshold {
			require.EqualValues(t, 1, h.Exponential.ZeroCount)
			continue
		}
		at := slices.Index(h.Buckets, 1)
		require.NotEqual(t, -1, at)
		lower := math.Ldexp(1, int(h.Exponential.Offset)+at)
		require.Greater(t, h.Sum, lower-1e-9)
		require.LessOrEqual(t, h.Sum, 2*lower)
	}
}
