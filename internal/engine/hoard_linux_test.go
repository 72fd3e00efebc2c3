// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// distance is the default mean distance between two sampled allocations.
const distance = 512 << 10

// deviation is the standard error of the estimated bytes of n requests of size bytes each.
func deviation(n, size, distance int64) float64 {
	return math.Sqrt(float64(n) * float64(size) * float64(max(distance-size, 0)))
}

// apart is how many standard errors a value may be off where several are looked at: one in 16,000 is more.
const apart = 4

// TestHoard holds that estimates of a program that knows what it allocates and has in use lie within the standard errors of
// the estimator, three of them in all, and shares within 3 %.
func TestHoard(t *testing.T) {
	needRoot(t)
	guest.TakesLong(t)
	hoard := testbin.C(t, "testdata/hoard.c")
	path := copyFile(t, hoard, filepath.Join(t.TempDir(), "hoard"))
	e := remembering(t, distance, false, process.Selector{Exe: path})
	p := steps(t, path)
	e.attached(3)
	p.step("warm")
	e.warmed()
	truth := p.step("done")
	inUse := e.inUse(path, truth)
	e.end()
	got := uses(e.of(runs(path)), "alloc_space", truth)
	var all, allTrue, variance float64
	for _, want := range truth {
		allTrue += float64(want[1])
	}
	require.Len(t, truth, 3)
	for name, want := range truth {
		n, bytes, liveN, live, size := want[0], want[1], want[2], want[3], want[4]
		t.Logf("%s: %d bytes estimated of %d, %d objects of %d; in use %d bytes of %d", name, got[name][0], bytes, got[name][1], n, inUse[name][0], live)
		sigma := deviation(n, size, distance)
		require.InDelta(t, bytes, got[name][0], apart*sigma, name)
		require.InDelta(t, n, got[name][1], apart*sigma/float64(size), name)
		require.InDelta(t, live, inUse[name][0], apart*deviation(liveN, size, distance), name)
		require.InDelta(t, float64(bytes)/allTrue, float64(got[name][0])/allTrue, 0.03, name)
		all += float64(got[name][0])
		variance += sigma * sigma
	}
	t.Logf("%.0f bytes estimated of %.0f, lost %v", all, allTrue, e.Stats().Lost)
	require.InDelta(t, allTrue, all, 3*math.Sqrt(variance))
}

// TestGoHoard holds it of Go programs, stripped ones too; how much of them is in use is not known.
func TestGoHoard(t *testing.T) {
	needRoot(t)
	needCompiler(t, "go")
	for name, flags := range map[string]string{"symbols": "", "stripped": "-s -w"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "gohoard")
			out, err := exec.Command("go", "build", "-ldflags="+flags, "-o", path, "testdata/gohoard/main.go").CombinedOutput()
			require.NoError(t, err, string(out))
			e := remembering(t, distance, false, process.Selector{Exe: path})
			p := steps(t, path)
			require.Eventually(t, func() bool { return e.Stats().Attached["memory"] == 1 }, time.Minute, 10*time.Millisecond, "runtime.mallocgc")
			p.step("warm")
			e.warmed()
			truth := p.step("done")
			inUse := e.inUse(path, truth)
			e.end()
			got := uses(e.of(runs(path)), "alloc_space", truth)
			require.Len(t, truth, 2)
			for function, want := range truth {
				n, bytes := want[0], want[1]
				t.Logf("%s: %d bytes estimated of %d, %d objects of %d", function, got[function][0], bytes, got[function][1], n)
				require.InDelta(t, bytes, got[function][0], apart*deviation(n, bytes/n, distance), function)
				require.Zero(t, inUse[function], "frees are not reported")
			}
		})
	}
}

// TestGoHoardTwice holds that two processes of one program of Go live on while both are attached to: a return address on a
// goroutine's stack that is changed ends the program.
func TestGoHoardTwice(t *testing.T) {
	needRoot(t)
	path := testbin.Go(t, "testdata/gohoard")
	e := remembering(t, distance, false, process.Selector{Exe: path})
	one, other := steps(t, path), steps(t, path)
	require.Eventually(t, func() bool { return e.Stats().Attached["memory"] == 2 }, time.Minute, 10*time.Millisecond, "runtime.mallocgc")
	for _, step := range []string{"warm", "done"} {
		one.step(step)
		other.step(step)
	}
	e.end()
	require.NotEmpty(t, e.of(runs(path)))
}

// TestNestedSampled holds that a function that is built on another counts once also when not every call is sampled.
func TestNestedSampled(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	allocs := testbin.C(t, "testdata/allocs.c")
	t.Run("sessions", func(t *testing.T) { nestedSampled(t, allocs, false) })
	t.Run("without", func(t *testing.T) { nestedSampled(t, allocs, true) })
}

func nestedSampled(t *testing.T, allocs string, plain bool) {
	t.Helper()
	const distance = 6000 // twice the size of a request
	path := copyFile(t, allocs, filepath.Join(t.TempDir(), "allocs"))
	e := remembering(t, distance, plain, process.Selector{Exe: path})
	p := steps(t, path)
	e.attached(3)
	p.step("warm")
	e.warmed()
	truth := p.step("done")
	e.reportNow()
	e.named()
	e.end()
	got := uses(e.of(runs(path)), "alloc_space", truth)
	for name, want := range truth {
		if size := want[1] / want[0]; size <= distance { // else it is a mix
			n := float64(want[0])
			require.InDelta(t, n, got[name][1], apart*math.Sqrt(n*(distance/float64(size)-1)), "%s, of whose calls half are not sampled", name)
		}
	}
}

// TestPageFaults holds that faults are the kernel's own count, to the last one.
func TestPageFaults(t *testing.T) {
	needRoot(t)
	toucher := testbin.C(t, "testdata/toucher.c")
	t.Run("tracepoints", func(t *testing.T) { pageFaults(t, toucher, false) })
	t.Run("events", func(t *testing.T) { pageFaults(t, toucher, true) })
}

func pageFaults(t *testing.T, toucher string, plain bool) {
	t.Helper()
	path := copyFile(t, toucher, filepath.Join(t.TempDir(), "toucher"))
	e := remembering(t, 0, plain, process.Selector{Exe: path})
	p := steps(t, path)
	p.step("warm")
	e.warmed()
	warm := len(e.of(runs(path)))
	truth := p.step("done")
	e.reportNow()
	e.named()
	e.end()
	got := map[string]int64{}
	for _, profile := range e.of(runs(path))[warm:] {
		require.Equal(t, []model.ValueType{{Type: "page_faults", Unit: "count"}}, profile.SampleTypes)
		for _, one := range profile.Samples {
			for name := range truth {
				if passes(one.Frames, name) {
					got[name] += one.Values[0]
				}
			}
		}
	}
	require.Len(t, truth, 2)
	for name, want := range truth {
		require.Greater(t, want[0], int64(2000))
		require.Equal(t, want[0], got[name], name)
	}
	lost := e.Stats().Lost
	require.Zero(t, lost[LossKey{"memory", "map_full"}]+lost[LossKey{"memory", "busy"}]+lost[LossKey{"memory", "interval_full"}])
}
