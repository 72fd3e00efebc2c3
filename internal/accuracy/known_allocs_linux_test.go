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

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// hasNamed reports whether a stack has these functions next to each other.
func hasNamed(t *testing.T, profiles []*model.Profile, functions string) (found bool) {
	t.Helper()
	fold(t, profiles, func(s pdata.FoldedSample) { found = found || strings.Contains(chain(s.Stack), functions) })
	return found
}

// allocated are the bytes and the allocations that were exported of a program, by its functions; "" is elsewhere.
type allocated struct {
	bytes, objects map[string]float64
	samples        int
}

// TestKnownAllocs checks that functions are exported with their bytes and allocations.
func TestKnownAllocs(t *testing.T) {
	knownAllocs(t, func(t *testing.T, truth map[string]float64, got allocated) {
		for function, known := range truth {
			if known > 16<<20 { // of which a thousand allocations are sampled
				require.Positive(t, got.bytes[function], function)
				require.Positive(t, got.objects[function], function)
			}
		}
	})
}

// TestMeasureKnownAllocs checks that functions have the shares of allocated bytes, and of allocations, that the programs themselves know.
func TestMeasureKnownAllocs(t *testing.T) {
	knownAllocs(t, func(t *testing.T, truth map[string]float64, got allocated) {
		elsewhere, known := got.bytes[""], truth["alloc_a"]+truth["alloc_b"]
		delete(got.bytes, "")
		delete(got.objects, "")
		exported := got.bytes["alloc_a"] + got.bytes["alloc_b"]
		t.Logf("%d distinct samples, %.0f MB of %.0f, elsewhere %.1f", got.samples, exported/1e6, known/1e6, elsewhere/1e6)
		require.InEpsilon(t, known, exported, 0.1)
		// Of the first moment, before the unwind tables of the program were there, and what runtimes do for themselves.
		require.Less(t, elsewhere/(exported+elsewhere), 0.3)
		wantObjects := map[string]float64{"alloc_a": 1.0 / 3, "alloc_b": 2.0 / 3}
		for function, share := range shares(truth) {
			t.Logf("%s: %.4f of the bytes by its own account, %.4f by ours, %.4f of the allocations", function, share,
				shares(got.bytes)[function], shares(got.objects)[function])
			require.InDelta(t, share, shares(got.bytes)[function], 0.03, function)
			require.InDelta(t, wantObjects[function], shares(got.objects)[function], 0.03, function)
		}
	})
}

// knownAllocs passes what each program has allocated, and what was exported of it.
func knownAllocs(t *testing.T, judge func(t *testing.T, truth map[string]float64, got allocated)) {
	t.Helper()
	paths := knownPrograms(t)
	config := onCPU(slices.Collect(maps.Values(paths))...)
	config.Observe, config.CPUPercent = nil, 1e6 // sampling is not reduced
	config.Observe = append(config.Observe, &memory.Options{Common: observe.Common{ReportInterval: time.Second}, Source: memory.SourceMalloc, SampleBytes: setting.ByteSize(16 << 10)})
	o := startEngine(t, config)
	truth := runWarm(t, paths, "alloc", 3000, func() {
		for name, path := range paths {
			require.Eventually(t, func() bool { return hasNamed(t, of(o.exported(), path), "alloc_warm take ") }, 60*time.Second, 100*time.Millisecond,
				"%s is attached to, and has unwind tables", name)
		}
	})
	require.Zero(t, o.engine.Stats().Levels["memory"], "sampling was not reduced")
	profiles := o.end()
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			require.Len(t, truth[name], 2)
			got := allocated{bytes: map[string]float64{}, objects: map[string]float64{}}
			fold(t, of(profiles, path), func(s pdata.FoldedSample) {
				sums := got.bytes
				switch kind := s.Profile.Type.Type + " " + s.Profile.Type.Unit; kind {
				case "alloc_space bytes":
					got.samples++
				case "alloc_objects count":
					sums = got.objects
				default:
					require.Fail(t, "another type of profile", kind)
				}
				if strings.Contains(chain(s.Stack), "alloc_warm take ") {
					return
				}
				found := ""
				for function := range truth[name] {
					if strings.Contains(chain(s.Stack), function+" take ") {
						found = function
					}
				}
				sums[found] += float64(s.Value)
			})
			judge(t, truth[name], got)
		})
	}
}
