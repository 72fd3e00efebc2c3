// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
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

// pipelined is requests, 16 in one piece, so that all but some 3 % of the bytes are theirs.
const pipelined = 16

func requestHeads() *exchanger {
	return newExchanger(whole(l7.Read, 0, strings.Repeat(browserRequest, pipelined)), whole(l7.Write, 0, strings.Repeat("HTTP/1.1 204 N\r\n\r\n", pipelined)))
}

// BenchmarkRequestHeads is pipelined requests.
func BenchmarkRequestHeads(b *testing.B) { requestHeads().run(b, pipelined) }

// BenchmarkRequestHeadsToScan is the same in turns with a search for the ends of the lines of the same bytes, which no parser can do
// without: where other work takes a part of the CPU from both, the median of the turns' ratios says more than either speed.
func BenchmarkRequestHeadsToScan(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	x, lines := requestHeads(), 0
	scan := func() {
		for _, p := range x.pieces {
			for data := p.Data; ; lines++ {
				end := bytes.IndexByte(data, '\n')
				if end < 0 {
					break
				}
				data = data[end+1:]
			}
		}
	}
	const times = 100
	var parsing, scanning, ratios []float64
	for b.Loop() {
		parsed, scanned := x.speed(b, times, x.once), x.speed(b, times, scan)
		parsing, scanning, ratios = append(parsing, parsed), append(scanning, scanned), append(ratios, parsed/scanned)
	}
	require.Positive(b, lines)
	b.ReportMetric(median(parsing), "GB/cpu-s")
	b.ReportMetric(median(scanning), "scan-GB/cpu-s")
	b.ReportMetric(median(ratios), "to-scan")
}

// speed is that of so many runs in the thread's CPU time, in bytes of an exchange for each ns.
func (x *exchanger) speed(b *testing.B, times int, run func()) float64 {
	before := threadTime(b)
	for range times {
		run()
	}
	return float64(x.bytes()) * float64(times) / float64(threadTime(b)-before)
}

func threadTime(b *testing.B) int64 {
	var now unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now))
	return now.Nano()
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkLargeBody is a response of which only the head and the length are known, in pieces of 64 KiB.
func BenchmarkLargeBody(b *testing.B) {
	for _, size := range []int64{64 << 10, 2 << 20} {
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) { newExchanger(largeBody(size)...).run(b, 1) })
	}
}
