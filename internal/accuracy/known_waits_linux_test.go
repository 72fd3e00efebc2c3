// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// TestMeasureKnownWaits checks that functions have the shares of waiting, and programs the time of it, that the programs themselves
// know.
func TestMeasureKnownWaits(t *testing.T) {
	paths := knownPrograms(t)
	config := onCPU(slices.Collect(maps.Values(paths))...)
	config.Observe = nil
	config.Observe = append(config.Observe, &offcpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, MinBlock: time.Millisecond})
	o := startEngine(t, config)
	truth := runAll(t, paths, "blocked", 4000)
	profiles := o.end()
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			total, got := 0.0, map[string]float64{}
			fold(t, of(profiles, path), func(s pdata.FoldedSample) {
				require.Equal(t, "off_cpu nanoseconds", s.Profile.Type.Type+" "+s.Profile.Type.Unit)
				// Go's scheduler and collector have threads that wait on their own.
				if functions := chain(s.Stack); strings.Contains(functions, "futex") || strings.Contains(functions, "usleep") || strings.Contains(functions, "epoll") {
					return
				}
				total += float64(s.Value)
				for function := range truth[name] {
					if strings.Contains(chain(s.Stack), function+" rest ") {
						got[function] += float64(s.Value)
					}
				}
			})
			require.Len(t, truth[name], 2)
			known := truth[name]["blocked_a"] + truth[name]["blocked_b"]
			require.InEpsilon(t, known, total, 0.03)
			for function, share := range shares(truth[name]) {
				t.Logf("%s: %.4f of the time by its own account, %.4f by ours", function, share, got[function]/total)
				require.InDelta(t, share, got[function]/total, 0.03, function)
			}
		})
	}
}
