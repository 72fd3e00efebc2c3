// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// BenchmarkThirtyFrames measures what a sample of a user stack of 30 frames and more without frame pointers takes in the
// kernel, by its own run-time statistics: 8 µs is promised for user stacks alone, 12 µs with the kernel's. That is held to
// with samples 1 ms apart; 9 ms, the default, shows how much more it is with caches as cold as whatever else runs on the
// machine leaves them.
func BenchmarkThirtyFrames(b *testing.B) {
	thirty := filepath.Join(b.TempDir(), "thirty")
	require.NoError(b, testbin.Compile("testdata/thirty.c", thirty, "-static"))
	for _, c := range []struct {
		name     string
		period   time.Duration
		kernel   bool
		where    string        // 1: the program is in the kernel
		promised time.Duration // 0: nothing
	}{
		{"user", time.Millisecond, false, "0", 8 * time.Microsecond},
		{"user and kernel", time.Millisecond, true, "1", 12 * time.Microsecond},
		{"user, cold", 9 * time.Millisecond, false, "0", 0},
		{"user and kernel, cold", 9 * time.Millisecond, true, "1", 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := configuration(c.period, process.Selector{Exe: thirty})
			planOf[*oncpu.Options](config).KernelStacks = c.kernel
			frames, samples := 0, int64(0)
			hooks := Hooks{Level: func(LevelChange) {}, Profiles: func(profiles []*model.Profile) {
				for _, p := range profiles {
					for _, s := range p.Samples {
						if s.Error == model.StackWhole {
							samples += s.Values[0]
							frames += len(s.Frames) * int(s.Values[0])
						}
					}
				}
			}}
			e, err := Start(b.Context(), config, hooks, zap.NewNop())
			require.NoError(b, err)
			require.NoError(b, exec.Command(thirty, "300", c.where).Run()) // so that its tables are there
			before := e.Stats()
			b.ResetTimer()
			for b.Loop() {
				require.NoError(b, exec.Command(thirty, "4000", c.where).Run())
			}
			after := e.Stats()
			require.NoError(b, e.Shutdown())
			taken := after.Events["on_cpu"] - before.Events["on_cpu"]
			spent := after.Programs["on_cpu.sample"].Time - before.Programs["on_cpu.sample"].Time
			perSample := spent / time.Duration(max(taken, 1))
			b.ReportMetric(float64(perSample.Nanoseconds()), "kernel-ns/sample")
			b.ReportMetric(float64(frames)/float64(max(samples, 1)), "frames/sample")
			require.Greater(b, taken, uint64(300))
			require.GreaterOrEqual(b, float64(frames)/float64(samples), 29.0)
			if c.promised > 0 && perSample > c.promised {
				b.Errorf("%s for a sample; %s is promised", perSample, c.promised)
			}
		})
	}
}
