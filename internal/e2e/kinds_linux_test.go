// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// waitingAndAllocating times the waits of programs, and samples the allocations of one of them.
const waitingAndAllocating = `
receivers:
  ebpf:
    targets: {include: [{exe: %q}, {exe: %q}]}
    observe:
      off_cpu: {report_interval: 1s}
      memory: {source: malloc, sample_bytes: 4KiB, report_interval: 1s, targets: [{exe: %q}]}
    limits: {cpu_percent: 100} # no wait is left out because of what it costs
exporters: {file: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [ebpf], exporters: [file]}}
`

// functionsByType returns the functions of a program that the file has so far, by type of sample. The last line may be incomplete yet.
func functionsByType(t *testing.T, file string, pid int) map[model.ValueType]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	found := map[model.ValueType]map[string]bool{}
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		profiles, err := (&pprofile.JSONUnmarshaler{}).UnmarshalProfiles(line)
		require.NoError(t, err)
		validate(t, profiles)
		require.NoError(t, pdata.Fold(profiles, func(f pdata.FoldedSample) error {
			if v, ok := f.Resource.Get("process.pid"); !ok || v.Int() != int64(pid) || f.Value <= 0 {
				return nil
			}
			if found[f.Profile.Type] == nil {
				found[f.Profile.Type] = map[string]bool{}
			}
			for _, frame := range f.Stack {
				found[f.Profile.Type][frame.Function] = true
			}
			return nil
		}))
	}
	return found
}

// TestWaitsAndAllocations has one Collector profile a program that sleeps and one that allocates, each by its functions.
func TestWaitsAndAllocations(t *testing.T) {
	needRoot(t)
	binary, file := distribution(t), filepath.Join(t.TempDir(), "profiles.json")
	sleeps, allocates := testbin.C(t, "../engine/testdata/blocked.c"), testbin.C(t, "../engine/testdata/allocating.c")
	c := start(t, binary, fmt.Sprintf(waitingAndAllocating, sleeps, allocates, allocates, file), nil)
	const long = "120000" // milliseconds: they are killed before
	sleeping, allocating := exec.Command(sleeps, "shares", long), exec.Command(allocates, "0", long)
	for _, program := range []*exec.Cmd{sleeping, allocating} {
		require.NoError(t, program.Start())
		t.Cleanup(func() {
			_ = program.Process.Kill()
			_ = program.Wait() // it was killed
		})
	}
	for _, want := range []struct {
		of        *exec.Cmd
		kind      model.ValueType
		functions string
	}{
		{sleeping, model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}, "main long_wait nap"},
		{sleeping, model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}, "main brief_wait nap"},
		{allocating, model.ValueType{Type: "alloc_space", Unit: "bytes"}, "main turns turn get"},
		{allocating, model.ValueType{Type: "alloc_objects", Unit: "count"}, "main turns turn get_zeros"},
	} {
		require.Eventually(t, func() bool {
			found := functionsByType(t, file, want.of.Process.Pid)[want.kind]
			for function := range strings.FieldsSeq(want.functions) {
				if !found[function] {
					return false
				}
			}
			return true
		}, time.Minute, 200*time.Millisecond, "%v of %s", want, &c.log)
	}
	require.NotContains(t, functionsByType(t, file, sleeping.Process.Pid), model.ValueType{Type: "alloc_space", Unit: "bytes"}, "memory's own targets leave it out")
	c.stop()
}
