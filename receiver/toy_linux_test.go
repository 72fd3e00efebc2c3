// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// TestAddMonitor checks that a monitor is one file and one line, as CONTRIBUTING.md says. It compiles the receiver with both and runs
// TestToyMonitor of testdata/toy.
func TestAddMonitor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	guest.SameOnEveryKernel(t) // it compiles the receiver
	runToyTest(t, "TestToyMonitor")
}

// TestAddProtocol checks that a protocol is one folder and one line with its import, as CONTRIBUTING.md says. It compiles the receiver with
// both and runs TestToyProtocol of testdata/toy.
func TestAddProtocol(t *testing.T) {
	guest.SameOnEveryKernel(t) // it compiles the receiver
	runToyTest(t, "TestToyProtocol")
}

// TestAddKind checks that a kind of observation is one folder and one line with its import, as CONTRIBUTING.md says. It compiles the receiver
// with both and runs TestToyKind of testdata/toy.
func TestAddKind(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	guest.SameOnEveryKernel(t) // it compiles the receiver
	runToyTest(t, "TestToyKind")
}

// toys are what testdata/toy adds: the files of a folder there to a folder below internal, and to the list of another folder a line, with an
// import unless it is empty.
var toys = []struct {
	from, to, list, line, imports string
	files                         int
}{
	{from: "monitor", to: "monitor", list: "monitor", line: "ToyPIDMax", files: 1},
	{from: "observe/toy", to: "observe/toy", list: "observe/kinds", line: "toy.Descriptor", imports: "github.com/otelcol-ebpf/ebpfreceiver/internal/observe/toy", files: 2},
	{from: "protocol/toy", to: "l7/protocol/toy", list: "l7/protocol", line: "toy.Descriptor", imports: "github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/toy", files: 3},
}

// toyTests is the output of the tests of testdata/toy/test.
var toyTests struct {
	run    sync.Once
	output string
}

// runToyTest checks that a test of testdata/toy/test passes with all toys. The tests are compiled and run together, by the first that needs one.
func runToyTest(t *testing.T, test string) {
	t.Helper()
	toyTests.run.Do(func() { toyTests.output = runToyTests(t) })
	require.Contains(t, toyTests.output, "--- PASS: "+test+" ")
}

// runToyTests adds all toys, runs the tests of testdata/toy/test, and returns their output.
func runToyTests(t *testing.T) string {
	t.Helper()
	absolute := func(path string) string {
		path, err := filepath.Abs(path)
		require.NoError(t, err)
		return path
	}
	overlay := map[string]string{}
	add := func(pattern, to string) (added int) {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			overlay[filepath.Join(to, filepath.Base(file))] = absolute(file)
		}
		return len(files)
	}
	for _, toy := range toys {
		require.Equal(t, toy.files, add(filepath.Join("testdata/toy", toy.from, "*.go"), absolute(filepath.Join("../internal", toy.to))), "CONTRIBUTING.md has this count")
		list := absolute(filepath.Join("../internal", toy.list, "list.go"))
		overlay[list] = filepath.Join(t.TempDir(), "list.go")
		addLine(t, list, overlay[list], toy.line, toy.imports)
	}
	require.NotZero(t, add("testdata/toy/test/*_test.go", absolute(".")))

	text, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	// Vet changes to the folder of each package, and a toy's does not exist.
	args := []string{"test", "-count=1", "-vet=off", "-overlay", file, "-run", "^TestToy", "-v"}
	// By the flags of this test's own binary, for which what does not depend on a list was compiled.
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	env := os.Environ()
	for _, s := range info.Settings {
		switch s.Key {
		case "-gcflags", "-race", "-trimpath":
			args = append(args, s.Key+"="+s.Value)
		case "CGO_ENABLED":
			env = append(env, s.Key+"="+s.Value)
		}
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%v", err) // each test checks its own result
	}
	return string(out)
}

// addLine writes a list with another line, and another import unless it is empty.
func addLine(t *testing.T, list, to, line, imports string) {
	t.Helper()
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	before, found := strings.CutSuffix(string(text), "}\n")
	require.True(t, found, "the list is the last of its file")
	if imports != "" {
		before = strings.Replace(before, "import (\n", "import (\n\t\""+imports+"\"\n", 1)
	}
	require.NoError(t, os.WriteFile(to, []byte(before+"\t"+line+",\n}\n"), 0o600))
}
