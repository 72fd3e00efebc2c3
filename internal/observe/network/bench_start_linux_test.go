// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// BenchmarkStart measures a start: reading the object, relocating, verifying and attaching its programs. cpu-ms/op is the CPU time of the
// process, including the verifier's. It depends less on the load of the host than the duration.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct {
		name   string
		config Config
	}{{"connections alone", config()}, {"requests", requestConfig()}} {
		for _, by := range ways {
			b.Run(c.name+", "+by.name, func(b *testing.B) { starts(b, c.config, by) })
		}
	}
}

func starts(b *testing.B, config Config, by *way) {
	require.NoError(b, observing(b, config, by.change).end()) // skips without root
	loader := kernel.NewLoader()
	tracker, err := lifecycle.Start(loader, 1<<17)
	require.NoError(b, err)
	defer func() { require.NoError(b, tracker.Close()) }()
	has := featuresFor(b)
	if !by.has(has) {
		b.Skip("the kernel cannot be observed by " + by.name)
	}
	if by.change != nil {
		by.change(&has)
	}
	b.ReportAllocs()
	var used time.Duration
	for b.Loop() {
		before := cpuTime(b)
		o, err := start(config, has, loader, tracker.SharedMaps(), observetest.NewHost())
		require.NoError(b, err)
		used += cpuTime(b) - before
		b.StopTimer()
		require.NoError(b, o.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
}

// cpuTime returns the CPU time of the process.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
