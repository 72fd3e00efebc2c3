// SPDX-License-Identifier: Apache-2.0

//go:build e2e && linux

package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// period is the distance of samples that the test asks for.
const period = 2 * time.Millisecond

// TestProfileTwoCollectors profiles a program, sends the profiles by OTLP gRPC to a second Collector and reads them back. The program runs
// until its functions have arrived: a slow machine may need more than one interval to read their names.
func TestProfileTwoCollectors(t *testing.T) {
	functions := []string{"main.demoSeventyPercent", "main.demoThirtyPercent", "main.main"}
	began := time.Now()
	got, _ := profileTwoCollectors(t, 5*time.Minute, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && !slices.ContainsFunc(functions, func(f string) bool { return !bytes.Contains(text, []byte(f)) })
	})
	require.Positive(t, got.leaf["main.demoSeventyPercent"])
	require.Positive(t, got.leaf["main.demoThirtyPercent"])
	require.Positive(t, got.below["main.main"])
	require.Less(t, got.time(), 2*time.Since(began), "the program has one busy thread")
}

// TestMeasureProfileTwoCollectors compares the same profile with the program's CPU time and shares. The first Collector is stopped in the
// middle of its interval: the last profile must arrive, too. In an emulated machine interrupts and switches take a good part of the program's
// CPU time, and its timer misses ticks: there nothing is to be compared.
func TestMeasureProfileTwoCollectors(t *testing.T) {
	if inGuest() {
		t.Skip("the timer of an emulated machine misses ticks")
	}
	got, cpu := profileTwoCollectors(t, 7*time.Second, nil) // not a multiple of the interval
	require.InEpsilon(t, cpu.Seconds(), got.time().Seconds(), 0.03, "CPU time in all")
	require.InDelta(t, 0.70, got.share("main.demoSeventyPercent"), 0.03)
	require.InDelta(t, 0.30, got.share("main.demoThirtyPercent"), 0.03)
	require.Greater(t, float64(got.below["main.main"])/float64(got.samples), 0.95, "stacks from main down")
}

// profileTwoCollectors runs demo-load for a time, at most until the file that the second Collector writes is enough. It returns what that
// Collector wrote of demo-load, and the CPU time that the kernel counted.
func profileTwoCollectors(t *testing.T, most time.Duration, enough func(file string) bool) (profile, time.Duration) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: sampling other processes needs CAP_BPF and CAP_PERFMON")
	}
	demo := binary(t, "demo-load")
	endpoint, file := freeport.Endpoint(t), filepath.Join(t.TempDir(), "profiles.json")
	second := start(t, receivingConfig(endpoint, file))
	first := start(t, profilingConfig(endpoint, demo))

	load := exec.Command(demo, "-duration", most.String())
	require.NoError(t, load.Start())
	ended := make(chan error, 1)
	go func() { ended <- load.Wait() }()
	if enough != nil {
		require.Eventually(t, func() bool { return enough(file) || len(ended) > 0 }, most+time.Minute, 100*time.Millisecond)
		_ = load.Process.Kill() // it may have ended
	}
	<-ended
	cpu := load.ProcessState.UserTime() + load.ProcessState.SystemTime()
	first.stop(t)
	second.stop(t)

	got := readProfiles(t, file, int64(load.Process.Pid))
	require.NotZero(t, got.samples, "log of the first Collector: %s\nof the second: %s", &first.log, &second.log)
	t.Log(got.top(12))
	t.Logf("CPU time %s, sampled %s, shares %.3f and %.3f", cpu, got.time(), got.share("main.demoSeventyPercent"), got.share("main.demoThirtyPercent"))
	return got, cpu
}

func receivingConfig(endpoint, file string) string {
	return fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
exporters: {file: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [file]}}
`, endpoint, file)
}

func profilingConfig(endpoint, exe string) string {
	return fmt.Sprintf(`
receivers:
  ebpf:
    targets: {include: [{exe: %q}]}
    limits: {cpu_percent: %d}
    observe: {on_cpu: {period: %s}}
exporters: {otlp_grpc: {endpoint: %q, tls: {insecure: true}}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [ebpf], exporters: [otlp_grpc]}}
`, exe, cpuPercent(), period, endpoint)
}

// cpuPercent is the default limit, or 20 times as much where the CPU is emulated: the same work takes some 20 times the CPU
// time there. With the default, the receiver would open the program's binary, which names need, only after the program has
// ended.
func cpuPercent() int {
	if inGuest() {
		return 40
	}
	return 2
}

// profile sums the samples of one process up by function.
type profile struct {
	samples int64
	leaf    map[string]int64 // by innermost function
	below   map[string]int64 // by functions anywhere in the stack
}

// share returns the part of the samples whose innermost function is this one.
func (p profile) share(function string) float64 {
	return float64(p.leaf[function]) / float64(p.samples)
}

// time is the CPU time that the samples stand for.
func (p profile) time() time.Duration { return time.Duration(p.samples) * period }

// top names the functions with the largest shares, for a person who reads why the test failed.
func (p profile) top(n int) string {
	names := slices.SortedFunc(maps.Keys(p.leaf), func(a, b string) int { return cmp.Compare(p.leaf[b], p.leaf[a]) })
	var b strings.Builder
	for _, name := range names[:min(n, len(names))] {
		fmt.Fprintf(&b, "%.3f %q, ", p.share(name), name)
	}
	return b.String()
}

// readProfiles reads what the file exporter wrote: one OTLP JSON message a line.
func readProfiles(t *testing.T, file string, pid int64) profile {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	p := profile{leaf: map[string]int64{}, below: map[string]int64{}}
	for line := range bytes.Lines(text) {
		require.NoError(t, pdata.FoldJSON(line, func(s pdata.FoldedSample) error {
			if v, ok := s.Resource.Get("process.pid"); ok && v.Int() == pid {
				p.add(s)
			}
			return nil
		}))
	}
	return p
}

func (p *profile) add(s pdata.FoldedSample) {
	p.samples += s.Value
	if len(s.Stack) > 0 {
		p.leaf[s.Stack[len(s.Stack)-1].Function] += s.Value
	}
	seen := map[string]bool{}
	for _, f := range s.Stack {
		if !seen[f.Function] {
			p.below[f.Function] += s.Value
		}
		seen[f.Function] = true
	}
}
