// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time that the process has used, in ns: on a host that does other things, too, it says more than the clock.
func cpuTime(b *testing.B) float64 {
	var usage unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}

// run reports the speed of the exchanges, and fails if one allocates.
func (x *exchanger) run(b *testing.B) {
	b.ReportAllocs()
	x.once()
	before := cpuTime(b)
	for b.Loop() {
		x.once()
	}
	used := cpuTime(b) - before
	b.ReportMetric(float64(x.bytes())*float64(b.N)/used, "GB/cpu-s")
	b.ReportMetric(used/float64(b.N)/float64(x.each), "cpu-ns/exchange")
	requireNoAllocs(b, x)
}

// BenchmarkHeads is requests and responses that are header blocks alone: of 12 fields, two of which are new each time.
func BenchmarkHeads(b *testing.B) {
	b.Run("one", func(b *testing.B) { newExchanger(b, 1, browse).run(b) })
	b.Run("50 together", func(b *testing.B) { newExchanger(b, 50, browse).run(b) })
}

// BenchmarkCalls is unary calls of gRPC, 20 at the same time.
func BenchmarkCalls(b *testing.B) { newExchanger(b, 20, unary).run(b) }

// BenchmarkLargeBody is a response of 32 KiB.
func BenchmarkLargeBody(b *testing.B) { newExchanger(b, 1, large).run(b) }
