// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// watched has policies wait for the troubles of services.
const watchedServices = `
receivers:
  ebpf:
    observe: {}
    policies:
%s
exporters:
  file/profiles: {path: %q, flush_interval: 100ms}
  file/logs: {path: %q, flush_interval: 100ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    profiles: {receivers: [ebpf], exporters: [file/profiles]}
    logs: {receivers: [ebpf], exporters: [file/logs]}
`

// policyText is a policy about one process.
func policyText(name string, pid int, rule, run string) string {
	return fmt.Sprintf("      - {name: %s, targets: [{pid: %d}], when: [{%s, period: 10s, count: 2}], run: [%s], duration: 20s, silence: 10m}\n", name, pid, rule, run)
}

// The runs of the policies.
const (
	computing = "{on_cpu: {period: 5ms, report_interval: 1s}}"
	waiting   = "{off_cpu: {min_block: 20ms, report_interval: 1s}}"
)

// service is a program that gets into trouble on command.
type service struct {
	*exec.Cmd
	t    *testing.T
	url  string
	into func(trouble string)
}

func (s *service) pid() int { return s.Process.Pid }

// run starts the program of a service, which ends with the test.
func (s *service) run() {
	s.t.Helper()
	s.Stderr = os.Stderr
	s.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.Start())
	s.t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait() // it was killed
	})
}

// installed is the path of a program that the test needs.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed here: %v", name, err)
	}
	return path
}

// startNginx starts one with a single process, whose troubles are files.
func startNginx(t *testing.T) *service {
	t.Helper()
	program, dir, address := installed(t, "nginx"), t.TempDir(), endpoint(t)
	config := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
daemon off; master_process off; user root; pid %[1]s/pid; error_log stderr crit;
events { worker_connections 64; }
http {
	access_log off; gzip on; gzip_types *; gzip_comp_level 9;
	server {
		listen %[2]s; root %[1]s;
		location /pay {
			if (-f %[1]s/slow) { set $limit_rate 20k; }
			if (-f %[1]s/failing) { return 503; }
			gzip off;
		}
	}
}`, dir, address), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pay"), make([]byte, 25<<10), 0o600))
	report := make([]byte, 1<<20)
	for i, x := range []byte(strings.Repeat("to be counted, ", 1<<20/15)) {
		report[i] = x + byte(i*i>>7&1)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "report"), report, 0o600))
	s := &service{Cmd: exec.Command(program, "-p", dir, "-c", config), t: t, url: "http://" + address}
	s.into = func(trouble string) {
		if trouble == "well" {
			require.NoError(t, os.Remove(filepath.Join(dir, "slow")))
			return
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, trouble), nil, 0o600))
	}
	s.run()
	require.Eventually(t, func() bool {
		response, err := http.Get(s.url + "/pay")
		return err == nil && response.Body.Close() == nil
	}, 20*time.Second, 20*time.Millisecond)
	return s
}

// startJava starts a server of the JDK, which is told its troubles.
func startJava(t *testing.T) *service {
	t.Helper()
	s := &service{Cmd: exec.Command(installed(t, "java"), "-XX:+PreserveFramePointer", "-XX:CompileCommand=quiet",
		"-XX:CompileCommand=dontinline,Trouble.*", "testdata/Trouble.java"), t: t}
	in, err := s.StdinPipe()
	require.NoError(t, err)
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	s.run()
	port, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s.url = "http://127.0.0.1:" + strings.TrimSpace(port)
	s.into = func(trouble string) {
		_, err := fmt.Fprintln(in, trouble)
		require.NoError(t, err)
	}
	return s
}

// customers ask for /pay, and for what no policy is about, until the test ends; once reports is set, for /report too.
func customers(t *testing.T, reports *atomic.Bool, urls ...string) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() { stop(); done.Wait() })
	client := &http.Client{}
	ask := func(url string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		request.Header.Set("Accept-Encoding", "gzip")
		if response, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	for _, url := range urls {
		done.Go(func() {
			for ctx.Err() == nil {
				ask(url + "/pay")
				ask(url + "/other")
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	done.Go(func() {
		for ctx.Err() == nil {
			if reports.Load() {
				ask(urls[0] + "/report")
			} else {
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
}

// triggered are the events of a policy that a file has told of so far.
func triggered(t *testing.T, file, policy string) (events []plog.LogRecord) {
	t.Helper()
	text := []byte(readText(t, file))
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		message, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
		require.NoError(t, err)
		for _, resource := range message.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					if name, _ := record.Attributes().Get("ebpf.policy"); record.EventName() == "ebpf.profiling.triggered" && name.Str() == policy {
						events = append(events, record)
					}
				}
			}
		}
	}
	return events
}

// shareOf is which part of what a task has told of so far is in a function, and how much there is by leaf.
func shareOf(t *testing.T, file, task, function string) (share float64, leaves map[string]int64) {
	t.Helper()
	var all, in int64
	leaves = map[string]int64{}
	text := []byte(readText(t, file))
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		require.NoError(t, pdata.FoldJSON(line, func(s pdata.FoldedSample) error {
			if id, ok := s.Profile.Attributes.Get("ebpf.task.id"); !ok || id.Str() != task {
				return nil
			}
			all += s.Value
			if len(s.Stack) > 0 {
				leaves[s.Stack[len(s.Stack)-1].String()] += s.Value
			}
			for _, frame := range s.Stack {
				if strings.Contains(frame.Function, function) {
					in += s.Value
					break
				}
			}
			return nil
		}))
	}
	return float64(in) / float64(max(all, 1)), leaves
}

// TestPoliciesOfServices holds that nginx and a Java server, under load, trigger what watches them when they become slow, erroneous,
// busy and thread-rich on command, not before and once each, with the cause; and that the profiles show the function that it is.
func TestPoliciesOfServices(t *testing.T) {
	needRoot(t)
	binary, dir := distribution(t), t.TempDir()
	profiles, logs := filepath.Join(dir, "profiles.json"), filepath.Join(dir, "logs.json")
	jcmd := installed(t, "jcmd")
	nginx, java := startNginx(t), startJava(t)
	t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", java.pid())) })
	var reports atomic.Bool
	customers(t, &reports, nginx.url, java.url)

	type expected struct {
		policy  string
		service *service
		// causes is the monitor with its path, atLeast its threshold.
		monitor, path string
		atLeast       float64
		run           string
		// function has share of the profile; a part of its name.
		function string
		share    float64
	}
	busy := 50 / float64(runtime.NumCPU()) // half a CPU
	list := []expected{
		{"nginx-slow", nginx, "http_avg_response_time", "/pay", 100, waiting, "epoll_wait", 0.5},
		{"nginx-failing", nginx, "http_error_rate", "/pay", 50, waiting, "epoll_wait", 0.5},
		{"nginx-busy", nginx, "process_cpu", "", busy, computing, "deflate", 0.5},
		{"java-slow", java, "http_avg_response_time", "/pay", 100, waiting, "JVM_Sleep", 0.05},
		{"java-failing", java, "http_error_rate", "/pay", 50, waiting, "Java_sun_nio_ch_EPoll_wait", 0.02},
		{"java-threads", java, "process_thread_count", "", 90, waiting, "JVM_Sleep", 0.5},
		{"java-busy", java, "process_cpu", "", busy, computing, "Trouble.recompute", 0.3},
	}
	var policies strings.Builder
	for _, e := range list {
		rule := fmt.Sprintf("monitor: %s, threshold: %g", e.monitor, e.atLeast)
		if e.path != "" {
			rule += ", uri_list: [" + e.path + "]"
		}
		policies.WriteString(policyText(e.policy, e.service.pid(), rule, e.run))
	}
	c := start(t, binary, fmt.Sprintf(watchedServices, policies.String(), profiles, logs), nil)
	time.Sleep(3 * time.Second) // all is well: nothing may trigger
	for _, e := range list {
		require.Empty(t, triggered(t, logs, e.policy), e.policy)
		if e.policy == "java-busy" { // its methods are compiled by now, and named from now on
			out, err := exec.Command(jcmd, strconv.Itoa(java.pid()), "Compiler.perfmap").CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		_, trouble, _ := strings.Cut(e.policy, "-")
		e.service.into(trouble)
		reports.Store(e.policy == "nginx-busy")
		var events []plog.LogRecord
		require.Eventually(t, func() bool {
			events = triggered(t, logs, e.policy)
			return len(events) > 0
		}, 60*time.Second, 50*time.Millisecond, "%s: %s", e.policy, &c.log)
		causes, _ := events[0].Attributes().Get("ebpf.causes")
		require.Equal(t, 1, causes.Slice().Len(), e.policy)
		cause := causes.Slice().At(0).Map().AsRaw()
		require.Equal(t, e.monitor, cause["monitor"], e.policy)
		require.EqualValues(t, e.atLeast, cause["threshold"], e.policy)
		require.GreaterOrEqual(t, cause["current"], e.atLeast, e.policy)
		if e.path != "" {
			require.Equal(t, e.path, cause["uri"], e.policy)
		}
		id, _ := events[0].Attributes().Get("ebpf.task.id")
		var share float64
		var leaves map[string]int64
		for end := time.Now().Add(60 * time.Second); share < e.share; time.Sleep(100 * time.Millisecond) {
			share, leaves = shareOf(t, profiles, id.Str(), e.function)
			require.True(t, time.Now().Before(end), "%s is in %.0f %% of the profile of %s: %v\n%s", e.function, 100*share, e.policy, leaves, &c.log)
		}
		t.Logf("%s: %v; %s %.0f %%", e.policy, cause, e.function, 100*share)
		reports.Store(false)
		if trouble == "slow" {
			e.service.into("well")
		}
	}
	c.stop()
	for _, e := range list {
		require.Len(t, triggered(t, logs, e.policy), 1, e.policy)
	}
}
