// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hotDemo is where the demo load spends seven parts in ten of its time.
const hotDemo = "main.demoSeventyPercent"

// hottest is the row of [hotDemo] in the list: shares of its own and with what it calls, samples, process.
var hottest = regexp.MustCompile(`(?m)^ *[0-9.]+ +[0-9.]+ +[0-9,]+  ` + regexp.QuoteMeta(hotDemo) + ` +demo-load\[([0-9]+)\] \(demo-load\)$`)

// running are the processes that were started with an environment variable of this value.
func running(t *testing.T, variable string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, text...), []byte("\x00"+variable+"\x00")) {
			continue // another's, or it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// makeRun is `make run` for so many seconds without the building: what it printed, and the folder that it wrote.
func makeRun(t *testing.T, seconds int) (printed, folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "out")
	script := exec.Command("internal/tools/run.sh")
	script.Dir = "../.."
	script.Env = append(os.Environ(), fmt.Sprint("RUN_SECONDS=", seconds), "OUT="+folder)
	var text output
	script.Stdout, script.Stderr = &text, &text
	require.NoError(t, script.Start())
	ended := make(chan error, 1)
	go func() { ended <- script.Wait() }()
	t.Cleanup(func() {
		for _, pid := range running(t, "OUT="+folder) { // none unless the test failed
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	deadline := time.After(time.Duration(seconds)*time.Second + 3*time.Minute)
	select {
	case err := <-ended:
		require.NoError(t, err, "%s", &text)
	case <-deadline:
		require.Fail(t, "make run does not end", "%s", &text)
	}
	return text.String(), folder
}

// shopRow is a row of the demo load's requests: rate, errors, durations, side, service, endpoint, statuses.
var shopRow = regexp.MustCompile(`(?m)^ *([0-9.]+) +[0-9.]+ +[0-9.]+(?:µs|ms|s) +[0-9.]+(?:µs|ms|s)  srv  demo-shop +GET /products/\{id\} +200×[0-9]+ 404×[0-9]+$`)

// TestMeasureMakeRun holds the demo load's share of its function.
func TestMeasureMakeRun(t *testing.T) { require.Greater(t, makesRun(t), 0.5) }

// TestMakeRun holds what `make run` promises: functions, requests, connections and triggers, profiles and a flame graph of
// them, and nothing that goes on when it has ended.
func TestMakeRun(t *testing.T) { require.Positive(t, makesRun(t)) }

// makesRun returns the share of [hotDemo] in the profiles of the demo load.
func makesRun(t *testing.T) float64 {
	t.Helper()
	needRoot(t)
	builtCollector(t, "otelcol-ebpf-quick")
	for _, program := range []string{"ebpf-top", "demo-load"} {
		if _, err := os.Stat("../../bin/" + program); err != nil && os.Getenv(required) == "" {
			t.Skipf("bin/%s is not built: run make bin/%s, or make e2e", program, program)
		} else {
			require.NoError(t, err, "run make bin/%s", program)
		}
	}
	var printed, folder string
	var row []string
	for _, seconds := range []int{30, 70, 150} { // a machine that has much else to do starts slowly
		printed, folder = makeRun(t, seconds)
		require.Empty(t, running(t, "OUT="+folder), "still running: %s", printed)
		if row = hottest.FindStringSubmatch(printed); row != nil && shopRow.MatchString(printed) && strings.Contains(printed, "  slow-responses ") {
			break
		}
		t.Logf("not all rows within %d s: %s", seconds, printed)
	}
	require.NotNil(t, row, "no row of %s", hotDemo)
	require.Contains(t, printed, "SELF%  TOTAL%   SAMPLES  FUNCTION")
	require.Regexp(t, shopRow, printed)
	require.Regexp(t, `(?m)http +demo-customer +→ demo-shop$`, printed, "its connection")
	require.Regexp(t, `(?m)^[0-9:]{8} off_cpu started +slow-responses +demo-shop +[0-9.]+ ≥ 100 http_avg_response_time$`, printed)
	require.Contains(t, printed, "cp testdata/run.yaml my.yaml && sudo bin/otelcol-ebpf-quick --config my.yaml")
	require.NotContains(t, printed, "is killed", "the Collector ends by itself")

	pid, err := strconv.Atoi(row[1])
	require.NoError(t, err)
	got := read(t, filepath.Join(folder, "profiles.json"), pid)
	require.Positive(t, got.samples)
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "what the exporter writes is for its owner alone")
	page, err := os.ReadFile(filepath.Join(folder, "flamegraph.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), hotDemo)
	drawings, err := os.ReadDir(filepath.Join(folder, "flamegraphs"))
	require.NoError(t, err)
	require.NotEmpty(t, drawings)
	t.Logf("%v", got.stacks)
	return got.within(hotDemo)
}
