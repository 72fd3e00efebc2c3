// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// cpuTime is the CPU time that the process has used, in ns: on a host that does other things, too, it says more than the clock.
func cpuTime(b *testing.B) float64 {
	var usage unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}

// run reports the speed of the exchanges, and fails if one allocates.
func (x *exchanger) run(b *testing.B, perRun int) {
	b.ReportAllocs()
	x.once()
	before := cpuTime(b)
	for b.Loop() {
		x.once()
	}
	used := cpuTime(b) - before
	require.Equal(b, perRun*(b.N+1), x.exchanges)
	b.ReportMetric(float64(x.bytes())*float64(b.N)/used, "GB/cpu-s")
	b.ReportMetric(used/float64(b.N)/float64(perRun), "cpu-ns/exchange")
	b.ReportMetric(used/float64(b.N)/float64(len(x.pieces)), "cpu-ns/piece")
	requireNoAllocs(b, x)
}

// BenchmarkHeads is requests and responses that are heads alone.
func BenchmarkHeads(b *testing.B) { browserExchange().run(b, 1) }

// BenchmarkRequestHeads is pipelined requests, 16 in one piece, so that all but some 3 % of the bytes are theirs.
func BenchmarkRequestHeads(b *testing.B) {
	const n = 16
	newExchanger(whole(l7.Read, 0, strings.Repeat(browserRequest, n)), whole(l7.Write, 0, strings.Repeat("HTTP/1.1 204 N\r\n\r\n", n))).run(b, n)
}

// BenchmarkLargeBody is a response of which only the head and the length are known, in pieces of 64 KiB.
func BenchmarkLargeBody(b *testing.B) {
	for _, size := range []int64{64 << 10, 2 << 20} {
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) { newExchanger(largeBody(size)...).run(b, 1) })
	}
}
