// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pprofiletest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("sampling other processes needs root")
	}
}

// seventy is a program that spends 70 % of its CPU time in hot() and 30 % in cold().
func seventy(t *testing.T) string { return testbin.C(t, "../engine/testdata/seventy.c") }

// run lets it use so much CPU time and returns what it says of itself.
// waited is the part of the time that it had to wait for a CPU.
func run(t *testing.T, program string, used time.Duration) (pid int, hot, total time.Duration, waited float64) {
	t.Helper()
	began := time.Now()
	cmd := exec.Command(program, strconv.FormatInt(used.Milliseconds(), 10))
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=seventy-thirty")
	out, err := cmd.Output()
	require.NoError(t, err)
	var cold time.Duration
	_, err = fmt.Sscan(string(out), (*int64)(&hot), (*int64)(&cold), (*int64)(&total))
	require.NoError(t, err)
	return cmd.Process.Pid, hot, total, max(0, 1-total.Seconds()/time.Since(began).Seconds()-0.05)
}

// untilNamed has a program work until a file has samples of both its functions, and returns what the file says then.
func untilNamed(t *testing.T, file string, load *exec.Cmd) (got seen) {
	t.Helper()
	require.NoError(t, load.Start())
	defer func() {
		_ = load.Process.Kill()
		_ = load.Wait() // it was killed
	}()
	require.Eventually(t, func() bool {
		got = read(t, file, load.Process.Pid)
		return got.within("main hot") > 0 && got.within("main cold") > 0
	}, time.Minute, 200*time.Millisecond, "%v", &got)
	return got
}

// endless has the program work until it is killed.
const endless = "3600000" // ms

// receiving is a second Collector's configuration: OTLP gRPC to a file.
const receiving = `
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
exporters: {file: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [file]}}
`

// sending profiles one program and sends what it sees by OTLP gRPC.
const sending = `
receivers:
  ebpf:
    targets: {include: [{exe: %q}]}
    observe: {on_cpu: {period: 9ms, report_interval: 2s}}
    limits: {cpu_percent: 100} # whatever it costs, it samples as configured
exporters: {otlp_grpc: {endpoint: %q, tls: {insecure: true}}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [ebpf], exporters: [otlp_grpc]}}
`

// seen is what the file says of one process.
type seen struct {
	samples  int64
	messages int
	stacks   map[string]int64 // names, root first
	resource map[string]any
	kinds    map[model.ValueType]bool
	periods  map[int64]bool
}

func (s seen) within(chain string) float64 {
	n := int64(0)
	for stack, count := range s.stacks {
		if strings.Contains(" "+stack+" ", " "+chain+" ") {
			n += count
		}
	}
	return float64(n) / float64(max(s.samples, 1))
}

// read validates every message that was written to a file so far and sums the samples of a process.
func read(t *testing.T, file string, pid int) seen {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	s := seen{stacks: map[string]int64{}, kinds: map[model.ValueType]bool{}, periods: map[int64]bool{}}
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		profiles, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(line)
		require.NoError(t, err)
		validate(t, profiles)
		s.messages++
		require.NoError(t, pdata.Fold(profiles, func(f pdata.FoldedSample) error {
			if v, ok := f.Resource.Get("process.pid"); ok && v.Int() == int64(pid) {
				s.add(f)
			}
			return nil
		}))
	}
	return s
}

func validate(t *testing.T, profiles pprofile.Profiles) {
	t.Helper()
	for _, resource := range profiles.ResourceProfiles().All() {
		for _, scope := range resource.ScopeProfiles().All() {
			require.Equal(t, "github.com/otelcol-ebpf/ebpfreceiver", scope.Scope().Name())
			for _, profile := range scope.Profiles().All() {
				require.NoError(t, pprofiletest.ValidateProfile(profiles.Dictionary(), profile))
			}
		}
	}
}

func (s *seen) add(f pdata.FoldedSample) {
	var names []string
	for _, frame := range f.Stack {
		names = append(names, frame.Function)
	}
	s.samples += f.Value
	s.stacks[strings.Join(names, " ")] += f.Value
	s.resource = f.Resource.AsRaw()
	s.kinds[f.Profile.Type] = true
	s.periods[f.Profile.Period] = true
}

// twoCollectors starts two Collectors, of which the first sends the profiles of a program to the second, which writes them to a file. stop ends both.
func twoCollectors(t *testing.T) (program, file string, stop func()) {
	t.Helper()
	needRoot(t)
	binary, address := distribution(t), freeport.Endpoint(t)
	program, file = seventy(t), filepath.Join(t.TempDir(), "profiles.json")
	second := start(t, binary, fmt.Sprintf(receiving, address, file), nil)
	first := start(t, binary, fmt.Sprintf(sending, program, address), nil)
	return program, file, func() {
		first.stop()
		second.stop()
	}
}

// TestTwoCollectors profiles a program and reads its profiles back behind a second Collector.
func TestTwoCollectors(t *testing.T) {
	program, file, stop := twoCollectors(t)
	load := exec.Command(program, endless)
	load.Env = append(os.Environ(), "OTEL_SERVICE_NAME=seventy-thirty")
	before := untilNamed(t, file, load)
	require.Eventually(t, func() bool { return read(t, file, load.Process.Pid).messages > 1 }, time.Minute, 200*time.Millisecond, "one for each interval")
	stop()

	got := read(t, file, load.Process.Pid)
	require.GreaterOrEqual(t, got.samples, before.samples)
	require.Equal(t, map[model.ValueType]bool{{Type: "samples", Unit: "count"}: true}, got.kinds)
	require.Equal(t, map[int64]bool{9_000_000: true}, got.periods)
	require.Equal(t, "seventy-thirty", got.resource["service.name"])
	require.NotEmpty(t, got.resource["service.instance.id"])
	require.Equal(t, program, got.resource["process.executable.path"])
	require.Equal(t, "seventy", got.resource["process.executable.name"])
	require.NotEmpty(t, got.resource["process.creation.time"])
}

// TestMeasureTwoCollectors compares the shares and the CPU time of the profile with those of the program.
func TestMeasureTwoCollectors(t *testing.T) {
	program, file, stop := twoCollectors(t)
	used := 9 * time.Second
	if testing.Short() {
		used = 4 * time.Second
	}
	pid, hot, total, waited := run(t, program, used)
	stop()

	got, truth := read(t, file, pid), hot.Seconds()/total.Seconds()
	sampled := time.Duration(got.samples) * 9 * time.Millisecond
	t.Logf("%s of %s CPU time in %d messages; hot %.4f of %.4f, cold %.4f", sampled, total, got.messages,
		got.within("main hot"), truth, got.within("main cold"))
	// A program that waits for a CPU is sampled at random moments of its own time, not at even distances.
	chance := 3 * math.Sqrt(waited/float64(max(got.samples, 1)))
	require.InDelta(t, truth, got.within("main hot"), 0.03+chance/2, "%v", got.stacks)
	require.InDelta(t, 1-truth, got.within("main cold"), 0.03+chance/2)
	require.InEpsilon(t, total.Seconds(), sampled.Seconds(), 0.03+chance)
	require.Greater(t, got.messages, 1, "one for each interval")
}

// TestSIGTERM checks that what was seen since the last report is delivered before the Collector ends.
func TestSIGTERM(t *testing.T) {
	sampled, _ := untilSIGTERM(t)
	require.Positive(t, sampled)
}

// TestMeasureSIGTERM compares it with the CPU time of the program.
func TestMeasureSIGTERM(t *testing.T) {
	sampled, total := untilSIGTERM(t)
	require.InEpsilon(t, total.Seconds(), sampled.Seconds(), 0.25)
}

// untilSIGTERM ends a Collector before its first report is due, and returns the CPU time that it has sampled of a program and that the program has used.
func untilSIGTERM(t *testing.T) (sampled, total time.Duration) {
	t.Helper()
	needRoot(t)
	binary, program := distribution(t), seventy(t)
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := start(t, binary, fmt.Sprintf(`
receivers: {ebpf: {targets: {include: [{exe: %q}]}, observe: {on_cpu: {report_interval: 10m}}, limits: {cpu_percent: 100}}}
exporters: {file: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [ebpf], exporters: [file]}}
`, program, file), nil)
	pid, _, total, _ := run(t, program, 3*time.Second)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Empty(t, before, "the report is not due")
	c.stop()
	got := read(t, file, pid)
	require.Equal(t, 1, got.messages)
	return time.Duration(got.samples) * 9 * time.Millisecond, total
}
