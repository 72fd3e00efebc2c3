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

const (
	// hotDemo is where the demo load spends seven parts in ten of its time.
	hotDemo = "main.demoSeventyPercent"
	// noDemo is what the script says of a machine that is busy.
	noDemo = "no demo load is started"
)

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
	deadline := time.After(time.Duration(seconds)*time.Second + 90*time.Second)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for started := false; ; {
		select {
		case err := <-ended:
			require.NoError(t, err, "%s", &text)
			return text.String(), folder
		case <-deadline:
			require.Fail(t, "make run does not end", "%s", &text)
		case <-look.C:
			if !started && strings.Contains(text.String(), noDemo) {
				started = true
				startDemo(t)
			}
		}
	}
}

// startDemo starts the demo load where the script did not.
func startDemo(t *testing.T) {
	t.Helper()
	load := exec.Command("../../bin/demo-load", "-duration", "5m")
	require.NoError(t, load.Start())
	t.Cleanup(func() {
		_ = load.Process.Kill()
		_ = load.Wait() // it was killed
	})
}

// TestMakeRun holds what `make run` promises: a list of the hottest functions, profiles and a flame graph of them, and nothing
// that goes on when it has ended.
func TestMakeRun(t *testing.T) {
	needRoot(t)
	distribution(t)
	for _, program := range []string{"ebpf-top", "demo-load"} {
		if _, err := os.Stat("../../bin/" + program); err != nil && os.Getenv(required) == "" {
			t.Skipf("bin/%s is not built: run make build bin/%s, or make e2e", program, program)
		} else {
			require.NoError(t, err, "run make build bin/%s", program)
		}
	}
	var printed, folder string
	var row []string
	for _, seconds := range []int{12, 60} { // a machine that has much else to do starts slowly
		printed, folder = makeRun(t, seconds)
		require.Empty(t, running(t, "OUT="+folder), "still running: %s", printed)
		if row = hottest.FindStringSubmatch(printed); row != nil {
			break
		}
		t.Logf("no row of %s within %d s: %s", hotDemo, seconds, printed)
	}
	require.NotNil(t, row, "no row of %s", hotDemo)
	require.Contains(t, printed, "SELF%  TOTAL%   SAMPLES  FUNCTION")
	require.NotContains(t, printed, "is killed", "the Collector ends by itself")

	pid, err := strconv.Atoi(row[1])
	require.NoError(t, err)
	got := read(t, filepath.Join(folder, "profiles.json"), pid)
	require.Positive(t, got.samples)
	require.Greater(t, got.within(hotDemo), 0.5, "%v", got.stacks)
	page, err := os.ReadFile(filepath.Join(folder, "flamegraph.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), hotDemo)
	drawings, err := os.ReadDir(filepath.Join(folder, "flamegraphs"))
	require.NoError(t, err)
	require.NotEmpty(t, drawings)
}
