// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// watched has policies wait for the troubles of services.
const watchedServices = `
receivers:
  ebpf:
    observe: {}
    limits: {cpu_percent: 100} # the load of a small machine does not reduce the sampling
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

// policyText is a policy for the processes that a selector matches.
func policyText(name, selector, rule, run string) string {
	return fmt.Sprintf("      - {name: %s, targets: [{%s}], when: [{%s, period: 10s, count: 2}], run: [%s], duration: 15s, silence: 10m}\n", name, selector, rule, run)
}

// processText selects one process.
func processText(pid int) string { return fmt.Sprint("pid: ", pid) }

// The runs of the policies.
const (
	computing = "{on_cpu: {period: 5ms, report_interval: 1s}}"
	closely   = "{on_cpu: {period: 1ms, report_interval: 1s}}"
	waiting   = "{off_cpu: {min_block: 20ms, report_interval: 1s}}"
)

// service is a program that gets into trouble on command.
type service struct {
	*exec.Cmd
	t    *testing.T
	url  string
	into func(trouble string)
	// works is the process that answers, which may be a child.
	works int
}

// run starts the program of a service, which ends with the test.
func (s *service) run() {
	s.t.Helper()
	s.Stderr = os.Stderr
	s.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.Start())
	s.works = s.Process.Pid
	s.t.Cleanup(func() {
		_ = s.Process.Signal(syscall.SIGTERM) // its workers end with it
		kill := time.AfterFunc(10*time.Second, func() { _ = s.Process.Kill() })
		defer kill.Stop()
		_ = s.Wait() // it was signalled to
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

// startNginx starts one with a single worker, whose troubles are files, and a new configuration with many threads. It is slow where it
// compresses what is hard to.
func startNginx(t *testing.T) *service {
	t.Helper()
	program, dir, address := installed(t, "nginx"), t.TempDir(), freeport.Endpoint(t)
	config := filepath.Join(dir, "nginx.conf")
	configure := func(threads int) {
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
daemon off; worker_processes 1; user root; pid %[1]s/pid; error_log stderr crit; thread_pool default threads=%[3]d;
events { worker_connections 64; }
http {
	access_log off; gzip on; gzip_types *; gzip_comp_level 9;
	server {
		listen %[2]s; root %[1]s;
		location /pay {
			if (-f %[1]s/slow) { rewrite ^ /large last; }
			if (-f %[1]s/failing) { return 503; }
			gzip off;
		}
		location /other { aio threads; gzip off; }
	}
}`, dir, address, threads), 0o600))
	}
	configure(2)
	report := make([]byte, 1<<20)
	for i, x := range []byte(strings.Repeat("to be counted, ", len(report)/15)) {
		report[i] = x + byte(i*i>>7&1)
	}
	for name, content := range map[string][]byte{"pay": make([]byte, 25<<10), "other": make([]byte, 25<<10), "report": report, "large": hard()} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	s := &service{Cmd: exec.Command(program, "-p", dir, "-c", config), t: t, url: "http://" + address}
	s.into = func(trouble string) {
		switch trouble {
		case "well":
			require.NoError(t, os.Remove(filepath.Join(dir, "slow")))
		case "threads":
			configure(64)
			require.NoError(t, s.Process.Signal(syscall.SIGHUP), "it starts another worker")
		default:
			require.NoError(t, os.WriteFile(filepath.Join(dir, trouble), nil, 0o600))
		}
	}
	s.run()
	s.awaitWorkers("/pay", 1)
	return s
}

// awaitWorkers waits until an nginx answers that is to have so many workers. The first of them is the one that works.
func (s *service) awaitWorkers(path string, workers int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		response, err := http.Get(s.url + path)
		return err == nil && response.Body.Close() == nil
	}, time.Minute, 20*time.Millisecond)
	var children []string
	require.Eventually(s.t, func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.Process.Pid))
		children = strings.Fields(string(text))
		return err == nil && len(children) == workers
	}, time.Minute, 20*time.Millisecond)
	var err error
	s.works, err = strconv.Atoi(children[0])
	require.NoError(s.t, err)
}

// hard is what is hard to compress: it takes a third of a second.
func hard() []byte {
	text, draw := make([]byte, 384<<10), rand.New(rand.NewPCG(1, 2))
	for i := range text {
		text[i] = 'a' + byte(draw.UintN(4))
	}
	return text
}

// startCrowd starts an nginx whose workers all compress when it is in trouble, as many as raise the host's load soon, of low priority: others on
// the host go on, and each worker still runs. above is a load that the host has then, and not before.
func startCrowd(t *testing.T) (s *service, above float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	var load float64
	_, err = fmt.Sscan(string(text), &load)
	require.NoError(t, err)
	workers := int(load) + 16 // of which two are added within ten seconds
	dir, address := t.TempDir(), freeport.Endpoint(t)
	config := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), hard(), 0o600))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
daemon off; worker_processes %[3]d; worker_priority 10; user root; pid %[1]s/pid; error_log stderr crit;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_types *; gzip_comp_level 9; server { listen %[2]s; root %[1]s; } }`, dir, address, workers), 0o600))
	s = &service{Cmd: exec.Command(installed(t, "nginx"), "-p", dir, "-c", config), t: t, url: "http://" + address}
	stop := func() {}
	s.into = func(trouble string) {
		if stop(); trouble == "well" {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		var done sync.WaitGroup
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // an idle worker takes the next connection
		for range 2 * workers {
			done.Go(func() {
				for ctx.Err() == nil {
					_ = askFor(ctx, client, s.url+"/large") // again
				}
			})
		}
		stop = func() { cancel(); done.Wait() }
	}
	s.run()
	t.Cleanup(func() { stop() })
	s.awaitWorkers("/large", workers)
	return s, load + 2
}

// askFor asks for something compressed.
func askFor(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// startJava starts a server of the JDK that reads its scenario from standard input.
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

// customers ask for /pay, and for what no policy is about, until the test ends; the first service also for /report while reports is set,
// and without a pause while hasty is.
func customers(t *testing.T, reports, hasty *atomic.Bool, urls ...string) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() { stop(); done.Wait() })
	client := &http.Client{}
	ask := func(url string) { _ = askFor(ctx, client, url) } // in vain while it starts its worker anew
	for i, url := range urls {
		done.Go(func() {
			for ctx.Err() == nil {
				ask(url + "/pay")
				ask(url + "/other")
				if i > 0 || !hasty.Load() {
					time.Sleep(20 * time.Millisecond)
				}
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

// triggered returns the events of a policy that a file has so far.
func triggered(t *testing.T, file, policy string) []plog.LogRecord {
	return eventsOf(t, file, "ebpf.profiling.triggered", policy)
}

// eventsOf returns the events with a name.
func eventsOf(t *testing.T, file, event, policy string) (events []plog.LogRecord) {
	t.Helper()
	text := []byte(readText(t, file))
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		message, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
		require.NoError(t, err)
		for _, resource := range message.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					if name, _ := record.Attributes().Get("ebpf.policy"); record.EventName() == event && name.Str() == policy {
						events = append(events, record)
					}
				}
			}
		}
	}
	return events
}

// shareOf returns the part of a task's samples so far that is in a function, and the number of samples by leaf.
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

// TestPoliciesOfServices checks that nginx and a Java server, under load, trigger what watches them when they become slow, erroneous,
// busy and thread-rich on command, not before, and one with many workers when the host is loaded by them, once each, with the cause; and
// that the profiles show the function that it is.
func TestPoliciesOfServices(t *testing.T) { policiesOfServices(t, false) }

// TestMeasurePoliciesOfServices holds the function's share of each profile, that half of a CPU is reached, and that the host's load triggers nothing
// before its cause.
func TestMeasurePoliciesOfServices(t *testing.T) { policiesOfServices(t, true) }

func policiesOfServices(t *testing.T, quiet bool) {
	t.Helper()
	needRoot(t)
	binary, dir := distribution(t), t.TempDir()
	profiles, logs := filepath.Join(dir, "profiles.json"), filepath.Join(dir, "logs.json")
	jcmd := installed(t, "jcmd")
	crowd, above := startCrowd(t)
	nginx, java := startNginx(t), startJava(t)
	t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/tmp/perf-%d.map", java.works)) })
	var reports, hasty atomic.Bool

	type expected struct {
		policy  string
		service *service
		// the selector of the policy.
		selector string
		// causes is the monitor with its path, atLeast its threshold.
		monitor, path string
		atLeast       float64
		run           string
		// function has share of the profile; a part of its name.
		function string
		share    float64
	}
	worker, jvm := processText(nginx.works), processText(java.works)
	workers := "port: " + nginx.url[strings.LastIndexByte(nginx.url, ':')+1:]
	busy := 15 / float64(runtime.NumCPU()) // of a CPU, which others may want
	if quiet {
		busy = 50 / float64(runtime.NumCPU())
	}
	list := []expected{ // in turns, so that one's run ends before its next trouble
		{"crowd-load", crowd, processText(crowd.works), "system_load", "", above, closely, "deflate", 0.5},
		{"nginx-busy", nginx, worker, "process_cpu", "", busy, computing, "deflate", 0.5},
		{"java-slow", java, jvm, "http_avg_response_time", "/pay", 2000, waiting, "JVM_Sleep", 0.05},
		{"nginx-slow", nginx, worker, "http_avg_response_time", "/pay", 100, computing, "deflate", 0.5},
		{"java-threads", java, jvm, "process_thread_count", "", 90, waiting, "JVM_Sleep", 0.5},
		{"nginx-failing", nginx, worker, "http_error_rate", "/pay", 50, closely, "ngx_http_core_rewrite_phase", 0.1},
		{"java-busy", java, jvm, "process_cpu", "", busy, computing, "Trouble.recompute", 0.3},
		{"nginx-threads", nginx, workers, "process_thread_count", "", 50, waiting, "ngx_thread_cond_wait", 0.5},
		{"java-failing", java, jvm, "http_error_rate", "/pay", 50, closely, "JVM_FillInStackTrace", 0.05},
	}
	if !inLongForm() { // each monitor once, of both services
		list = slices.DeleteFunc(list, func(e expected) bool {
			return slices.Contains([]string{"nginx-slow", "java-busy", "nginx-threads", "java-failing"}, e.policy)
		})
	}
	var policies strings.Builder
	for _, e := range list {
		rule := fmt.Sprintf("monitor: %s, threshold: %g", e.monitor, e.atLeast)
		if e.path != "" {
			rule += ", uri_list: [" + e.path + "]"
		}
		policies.WriteString(policyText(e.policy, e.selector, rule, e.run))
	}
	if !quiet {
		crowd.into("load") // others may load the host as much meanwhile
	}
	c := start(t, binary, fmt.Sprintf(watchedServices, policies.String(), profiles, logs), nil)
	ran := map[*service]string{}
	for i, e := range list {
		if i == 1 { // before, no client sends requests that would be slow on a loaded host
			customers(t, &reports, &hasty, nginx.url, java.url)
			time.Sleep(3 * time.Second) // all is well: nothing may trigger
		}
		begun := e.service == crowd && !quiet
		require.True(t, begun || len(triggered(t, logs, e.policy)) == 0, e.policy)
		if e.policy == "java-busy" { // its methods are compiled by now, and named from now on
			out, err := exec.Command(jcmd, strconv.Itoa(java.works), "Compiler.perfmap").CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		if before := ran[e.service]; before != "" { // else that would be taken for what is asked for now
			require.Eventually(t, func() bool { return len(eventsOf(t, logs, "ebpf.task.finished", before)) > 0 }, 60*time.Second, 50*time.Millisecond,
				"the run of %s: %s", before, &c.log)
		}
		ran[e.service] = e.policy
		_, trouble, _ := strings.Cut(e.policy, "-")
		if !begun {
			e.service.into(trouble)
		}
		reports.Store(e.policy == "nginx-busy")
		hasty.Store(e.policy == "nginx-failing")
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
		least := math.SmallestNonzeroFloat64
		if quiet {
			least = e.share
		}
		for end := time.Now().Add(60 * time.Second); share < least; time.Sleep(100 * time.Millisecond) {
			share, leaves = shareOf(t, profiles, id.Str(), e.function)
			require.True(t, time.Now().Before(end), "%s is in %.0f %% of the profile of %s: %v\n%s", e.function, 100*share, e.policy, leaves, &c.log)
		}
		t.Logf("%s: %v; %s %.0f %%", e.policy, cause, e.function, 100*share)
		reports.Store(false)
		hasty.Store(false)
		if trouble == "load" || trouble == "slow" || e.policy == "java-busy" {
			e.service.into("well")
		}
	}
	c.stop()
	for _, e := range list {
		require.Len(t, triggered(t, logs, e.policy), 1, e.policy)
	}
}
