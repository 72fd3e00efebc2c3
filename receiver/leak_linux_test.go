// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package receiver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadatatest"
)

// openFiles counts this process's open files by what they are: BPF maps, programs and links, perf events, and others.
// Of those without a path it also counts the mappings, which keep a file that is closed.
func openFiles(t *testing.T) map[string]int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	mappings, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	counts := map[string]int{}
	for mapping := range strings.Lines(string(mappings)) {
		if _, name, ok := strings.Cut(mapping, "anon_inode:"); ok {
			counts["mapped "+strings.TrimSpace(name)]++
		}
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if os.IsNotExist(err) {
			continue // that of the listing itself
		}
		require.NoError(t, err)
		counts[strings.TrimRight(target, "0123456789]")]++ // sockets and pipes have a number
	}
	return counts
}

// TestNothingIsLeft checks that what Start opens Shutdown closes, with two pipelines on one engine.
func TestNothingIsLeft(t *testing.T) {
	guest.TakesLong(t)
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	tt := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tt.Shutdown(context.Background())) })
	settings := metadatatest.NewSettings(tt)
	run := func() (open map[string]int, programs int) {
		factory, config := NewFactory().(xreceiver.Factory), createDefaultConfig().(*Config)
		onCPUOf(config).Period = time.Millisecond
		onCPUOf(config).ReportInterval = time.Second
		sink := &consumertest.ProfilesSink{}
		profiles, err := factory.CreateProfiles(t.Context(), settings, config, sink)
		require.NoError(t, err)
		metrics, err := factory.CreateMetrics(t.Context(), settings, config, consumertest.NewNop())
		require.NoError(t, err)
		host := &statusHost{}
		require.NoError(t, profiles.Start(t.Context(), host))
		require.NoError(t, metrics.Start(t.Context(), host))
		awaitStart(profiles)
		for _, e := range host.events {
			require.NotEqual(t, componentstatus.StatusPermanentError, e.Status(), "%v", e.Err())
		}
		open, programs = openFiles(t), len(profiles.(*ebpfReceiver).engine.Stats().Programs)
		require.Eventually(t, func() bool { return len(sink.AllProfiles()) > 0 }, time.Minute, 10*time.Millisecond)
		_, err = tt.GetMetric("otelcol_ebpf_events")
		require.NoError(t, err)
		require.NoError(t, profiles.Shutdown(t.Context()))
		require.NoError(t, metrics.Shutdown(t.Context()))
		return open, programs
	}
	run() // the runtime's own files, such as its poller, are opened once
	before := openFiles(t)
	during, programs := run()
	require.Positive(t, during["anon_inode:bpf-map"])
	// The program that names kernel functions is loaded when the first one was sampled.
	require.Contains(t, []int{programs, programs + 1}, during["anon_inode:bpf-prog"]-before["anon_inode:bpf-prog"], "one engine for both pipelines")
	require.Positive(t, during["anon_inode:[perf_event"])
	require.Positive(t, during["mapped bpf-map"], "the tables of samples")
	require.Positive(t, during["mapped [perf_event]"], "the rings of mappings of code")
	require.Equal(t, before, openFiles(t))
}
