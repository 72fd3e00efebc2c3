// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/sigready"
)

// required names the environment variable that makes a missing binary an error.
const required = "E2E_REQUIRED"

// distribution returns the path of the built Collector.
func distribution(t *testing.T) string {
	t.Helper()
	return builtCollector(t, "otelcol-ebpf-quick")
}

// builtCollector returns the path of a distribution that was built from the sources as they are.
func builtCollector(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/" + name)
	require.NoError(t, err)
	built, err := os.Stat(path)
	reason := ""
	switch {
	case err != nil:
		reason = "it is not built: " + err.Error()
	case newest(t).After(built.ModTime()):
		reason = "it is older than its sources"
	default:
		return path
	}
	if os.Getenv(required) != "" {
		t.Fatalf("bin/%s cannot be tested: %s; run make bin/%s", name, reason, name)
	}
	t.Skipf("bin/%s cannot be tested: %s; run make e2e", name, reason)
	return ""
}

// elsewhere are folders that the Collector is not made of.
var elsewhere = []string{
	"../accuracy", "../bench", "../cmd", "../demo", "../distribution/e2e", "../e2e", "../flamegraph", "../follow", "../hostile", "../kerneltest",
	"../overview", "../profilefile", "../terminal", "../tools",
}

// isSource reports whether the Collector is built from a file.
func isSource(path string) bool {
	return slices.Contains([]string{".go", ".o", ".sum", ".yaml"}, filepath.Ext(path)) && !strings.HasSuffix(path, "_test.go")
}

// newest is when the youngest source of the Collector was changed.
func newest(t *testing.T) (last time.Time) {
	t.Helper()
	for _, root := range []string{"../../receiver", "../../bpf", "..", "../../cmd", "../../go.sum"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if d.Name() == "testdata" || slices.Contains(elsewhere, path) {
					return fs.SkipDir
				}
				return nil
			}
			if !isSource(path) {
				return nil
			}
			info, err := d.Info()
			if err == nil && info.ModTime().After(last) {
				last = info.ModTime()
			}
			return err
		}))
	}
	return last
}

// output is what a program has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// collector is a Collector that runs.
type collector struct {
	*exec.Cmd
	t     *testing.T
	log   output
	ended chan struct{}
}

// launch starts a Collector; change may alter how.
func launch(t *testing.T, binary, config string, change func(*exec.Cmd)) *collector {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "e2e-") // t.TempDir is closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o644))
	c := &collector{Cmd: exec.Command(binary, "--config", path), t: t, ended: make(chan struct{})}
	c.Stdout, c.Stderr = &c.log, &c.log
	if change != nil {
		change(c.Cmd)
	}
	sigready.Prepare(c.Cmd)
	require.NoError(t, c.Start())
	go func() {
		_ = c.Wait() // the exit code says it
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill() // it has ended unless the test failed
		<-c.ended
	})
	return c
}

// signal sends a signal as soon as the Collector listens for it.
func (c *collector) signal(sig syscall.Signal) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		asked, err := sigready.Asked(c.Process.Pid)
		require.NoError(c.t, err)
		return asked
	}, time.Minute, 20*time.Millisecond, "the Collector does not listen for signals: %s", &c.log)
	time.Sleep(50 * time.Millisecond) // it asks for SIGTERM with the next instructions
	require.NoError(c.t, c.Process.Signal(sig))
}

// start starts a Collector and waits until its pipelines run and its receiver has started, if one of ours is in a pipeline.
func start(t *testing.T, binary, config string, change func(*exec.Cmd)) *collector {
	t.Helper()
	c := launch(t, binary, config, change)
	c.eventually("Everything is ready")
	if strings.Contains(c.log.String(), `"otelcol.component.id": "ebpf`) {
		c.started(1)
	}
	return c
}

// started waits until the receiver has started so many times, or could not.
func (c *collector) started(times int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		log := c.log.String()
		return strings.Count(log, "The receiver has started")+strings.Count(log, "The receiver observes nothing") >= times
	}, 2*time.Minute, 20*time.Millisecond, "the Collector's log: %s", &c.log)
}

// eventually waits for a text in the log.
func (c *collector) eventually(text string) {
	c.t.Helper()
	for end := time.Now().Add(60 * time.Second); !strings.Contains(c.log.String(), text); time.Sleep(20 * time.Millisecond) {
		select {
		case <-c.ended:
			c.t.Fatalf("the Collector ended without %q: %s", text, &c.log)
		default:
		}
		require.True(c.t, time.Now().Before(end), "waiting for %q: %s", text, &c.log)
	}
}

// exit waits for the end and returns the exit code.
func (c *collector) exit() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(60 * time.Second):
		c.t.Fatalf("the Collector does not end: %s", &c.log)
	}
	return c.ProcessState.ExitCode()
}

// stop ends it as an init system does.
func (c *collector) stop() {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	require.Zero(c.t, c.exit(), "%s", &c.log)
}
