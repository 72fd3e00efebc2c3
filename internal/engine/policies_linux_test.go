// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// asked are the tasks that policies asked for, in place of those who start them.
type asked struct {
	mu       sync.Mutex
	requests []task.Request
	answer   func(task.Request) []task.Outcome
}

func (a *asked) ask(r task.Request) []task.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r)
	if a.answer != nil {
		return a.answer(r)
	}
	return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Started}}
}

// of are those of a policy for a process.
func (a *asked) of(name string, pid int) (list []task.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		if r.Name == name && r.Processes[0].ID.PID == uint32(pid) {
			list = append(list, r)
		}
	}
	return list
}

// when is a policy of one rule, with a name for each.
func when(name string, rule policy.Rule) Policy {
	return Policy{
		Policy: policy.Policy{Name: name, When: []policy.Rule{rule}, Silence: time.Hour},
		Runs:   []task.Run{{Kind: "on_cpu"}}, Duration: time.Minute,
	}
}

func watching(t *testing.T, a *asked, policies []Policy, include ...process.Selector) *observed {
	t.Helper()
	config := configuration(100*time.Millisecond, include...)
	config.Policies = policies
	return beginAsking(t, config, a.ask)
}

const patience = time.Minute

// burn uses CPU time of this process until the test ends it.
func burn(stop *atomic.Bool) {
	for n := 0; !stop.Load(); n++ {
		_ = n
	}
}

// TestPoliciesOfProcesses holds that what a process does triggers within its window, once.
func TestPoliciesOfProcesses(t *testing.T) {
	a := &asked{}
	self := os.Getpid()
	const threads = 64
	o := watching(t, a, []Policy{
		when("busy", policy.Rule{Monitor: monitor.ProcessCPU, Threshold: 15 / float64(runtime.NumCPU()), Period: 10, Count: 2}),
		when("threads", policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: threads + 20, Period: 5, Count: 2}),
		when("load", policy.Rule{Monitor: monitor.SystemLoad, Threshold: 0, Period: 3, Count: 1}),
		when("never", policy.Rule{Monitor: monitor.SystemLoad, Threshold: 1e9, Period: 3, Count: 1}),
		when("pressure", policy.Rule{Monitor: monitor.SystemCPUPressure, Threshold: 0, Period: 3, Count: 1}),
	}, process.Selector{PID: uint32(self)})
	require.Eventually(t, func() bool { return len(a.of("load", self)) == 1 }, patience, 20*time.Millisecond)
	require.Empty(t, a.of("threads", self))
	if _, err := proc.ReadPressure("/proc", "cpu"); err == nil { // this kernel has it
		require.Eventually(t, func() bool { return len(a.of("pressure", self)) == 1 }, patience, 20*time.Millisecond)
	}

	var stop atomic.Bool
	held := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { burn(&stop) })
	for range threads + 20 {
		done.Go(func() {
			runtime.LockOSThread()
			<-held
		})
	}
	require.Eventually(t, func() bool { return len(a.of("busy", self)) == 1 && len(a.of("threads", self)) == 1 }, patience, 20*time.Millisecond)
	stop.Store(true)
	close(held)
	done.Wait()
	r := a.of("busy", self)[0]
	require.Equal(t, "policy:busy", r.By)
	require.Equal(t, time.Minute, r.Duration)
	require.Len(t, r.Causes, 1)
	require.Equal(t, "process_cpu", r.Causes[0].Monitor)
	require.GreaterOrEqual(t, r.Causes[0].Value, r.Causes[0].Threshold)
	require.LessOrEqual(t, r.Causes[0].Value, 100.0)
	require.GreaterOrEqual(t, a.of("threads", self)[0].Causes[0].Value, float64(threads+20))
	o.end()
	require.Len(t, a.of("busy", self), 1, "silence")
	require.Len(t, a.of("load", self), 1)
	require.Empty(t, a.of("never", self))
}

// TestPoliciesOfNewProcesses holds that who starts later is watched, and who could not be run is asked for again.
func TestPoliciesOfNewProcesses(t *testing.T) {
	a := &asked{}
	var refused sync.Once
	a.answer = func(task.Request) []task.Outcome {
		outcome := task.Outcome{State: task.Started}
		refused.Do(func() { outcome = task.Outcome{Err: errors.New("not now")} })
		return []task.Outcome{outcome}
	}
	o := watching(t, a, []Policy{when("one", policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1})},
		process.Selector{Cmdline: fmt.Sprintf("^sleep 3600.%d$", os.Getpid())})
	child := exec.Command("sleep", fmt.Sprintf("3600.%d", os.Getpid())) // like no other
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	require.Eventually(t, func() bool { return len(a.of("one", child.Process.Pid)) == 2 }, patience, 20*time.Millisecond)
	require.Equal(t, 1, o.policies.watch.Members())
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait(), "it was killed")
	require.Eventually(t, func() bool { return o.policies.watch.Members() == 0 }, patience, 20*time.Millisecond)
}

// TestNetworkIsOfTheInstance holds that the kind network is asked for of all processes of the service instance, after the others, which
// start in less time.
func TestNetworkIsOfTheInstance(t *testing.T) {
	a := &asked{}
	rule := policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 10, Count: 3} // when both are known for sure
	instance := when("instance", rule)
	instance.Runs = []task.Run{{Kind: "network"}, {Kind: "on_cpu"}}
	seconds := fmt.Sprintf("3601.%d", os.Getpid()) // like no other
	var pids []uint32
	for _, name := range []string{"one", "one", "other"} {
		child := exec.Command("sleep", seconds)
		child.Env = append(os.Environ(), "OTEL_RESOURCE_ATTRIBUTES=service.name=shop,service.instance.id="+name)
		require.NoError(t, child.Start())
		t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
		pids = append(pids, uint32(child.Process.Pid))
		require.Eventually(t, func() bool { return executes(&program{Cmd: child}) }, patience, time.Millisecond)
	}
	watching(t, a, []Policy{instance}, process.Selector{Cmdline: "^sleep " + seconds + "$"}) // the first scan finds all
	for i, want := range [][]uint32{pids[:2], pids[:2], pids[2:]} {
		require.Eventually(t, func() bool { return len(a.of("instance", int(pids[i]))) == 1 }, patience, 20*time.Millisecond)
		r := a.of("instance", int(pids[i]))[0]
		require.Len(t, r.Processes, 1)
		require.Equal(t, []string{"on_cpu", "network"}, []string{r.Runs[0].Kind, r.Runs[1].Kind})
		require.Nil(t, r.Runs[0].Processes)
		var of []uint32
		for _, p := range r.Runs[1].Processes {
			of = append(of, p.ID.PID)
		}
		require.ElementsMatch(t, want, of)
		require.True(t, r.Runs[1].Instance, "who joins it is observed, too")
	}
}

// TestNetworkHears holds when requests are read for policies by the kind network: only where it reads all that they ask for.
func TestNetworkHears(t *testing.T) {
	whole := network.Plan{Requests: true, TLS: tls.Libraries, Protocols: []network.Protocol{"http", "http2", "dns"}}
	require.True(t, (&Config{Observe: []observe.Plan{&whole}}).monitorsAreCovered())
	require.False(t, (&Config{}).monitorsAreCovered())
	for name, change := range map[string]func(*network.Plan){
		"no requests": func(n *network.Plan) { n.Requests = false },
		"targets":     func(n *network.Plan) { n.Targets = []process.Selector{{PID: 1}} },
		"clients":     func(n *network.Plan) { n.Role = network.Client },
		"no http2":    func(n *network.Plan) { n.Protocols = []network.Protocol{"http"} },
		"no go":       func(n *network.Plan) { n.TLS = []tls.Library{"openssl"} },
	} {
		n := whole
		change(&n)
		require.False(t, (&Config{Observe: []observe.Plan{&n}}).monitorsAreCovered(), name)
	}
}

// TestSlowStartsStallNothing holds that seconds are looked at, and another policy fires, while what others asked for takes long to start.
func TestSlowStartsStallNothing(t *testing.T) {
	a, self := &asked{}, os.Getpid()
	const slow = starters - 1
	proceed, asks := make(chan struct{}), make(chan string, 16)
	answer := func(r task.Request) []task.Outcome {
		asks <- r.Name
		if r.Name != "quick" {
			<-proceed
		}
		return a.ask(r)
	}
	config := configuration(100*time.Millisecond, process.Selector{PID: uint32(self)})
	for i := range slow {
		config.Policies = append(config.Policies, when(fmt.Sprintf("slow %d", i), policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1}))
	}
	config.Policies = append(config.Policies, when("quick", policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 10, Count: 4}))
	o := beginAsking(t, config, answer)
	var want, got []string
	for _, p := range config.Policies {
		want, got = append(want, p.Name), append(got, <-asks)
	}
	require.ElementsMatch(t, want, got)
	close(proceed)
	require.Eventually(t, func() bool { return len(a.of("slow 0", self)) == 1 }, patience, 20*time.Millisecond)
	o.end()
}

// serves says that the test binary was started to be a server.
const serves = "EBPFRECEIVER_TEST_SERVES"

// TestHelperServer is a server for other tests: one path is slow and one fails.
func TestHelperServer(t *testing.T) {
	if os.Getenv(serves) == "" {
		t.Skip("other tests start it")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			time.Sleep(50 * time.Millisecond)
		case "/fails":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, "done")
	}))
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Close()
}

// serve starts a server and returns its process id and its address.
func serve(t *testing.T) (pid int, url string) {
	t.Helper()
	server := exec.Command(os.Args[0], "-test.run=^TestHelperServer$")
	server.Env = append(os.Environ(), serves+"=1")
	stdin, err := server.StdinPipe()
	require.NoError(t, err)
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = server.Wait()
	})
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	url = lines.Text()
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return server.Process.Pid, url
}

// TestPoliciesOfRequests holds that a server's requests trigger by their paths alone, and that the values of monitors are exported.
func TestPoliciesOfRequests(t *testing.T) {
	needRoot(t)
	guest.TakesLong(t)
	a := &asked{}
	pid, url := serve(t)
	o := watching(t, a, []Policy{
		when("slow", policy.Rule{Monitor: monitor.HTTPAvgResponseTime, Threshold: 40, Period: 5, Count: 2, Paths: []string{"/slow"}}),
		when("fails", policy.Rule{Monitor: monitor.HTTPErrorRate, Threshold: 50, Period: 5, Count: 2, Paths: []string{"/fails"}}),
		when("other", policy.Rule{Monitor: monitor.HTTPErrorRate, Threshold: 1, Period: 5, Count: 1, Paths: []string{"/good"}}),
		when("begins", policy.Rule{Monitor: monitor.HTTPErrorRate, Threshold: 50, Period: 5, Count: 2, Pattern: regexp.MustCompile("^/f")}),
		when("all", policy.Rule{Monitor: monitor.HTTPErrorRate, Threshold: 20, Period: 5, Count: 2}),
	}, process.Selector{PID: uint32(pid)})
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for {
			for _, path := range []string{"/slow", "/fails?x=1", "/good"} {
				if response, err := client.Get(url + path); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	defer done.Wait()
	defer close(stop)
	require.Eventually(t, func() bool { return len(a.of("slow", pid)) == 1 && len(a.of("fails", pid)) == 1 }, patience, 20*time.Millisecond)
	slow, fails := a.of("slow", pid)[0].Causes, a.of("fails", pid)[0].Causes
	require.Equal(t, []model.Cause{{Monitor: "http_avg_response_time", Threshold: 40, Value: slow[0].Value, Path: "/slow"}}, slow)
	require.GreaterOrEqual(t, slow[0].Value, 50.0)
	require.Equal(t, []model.Cause{{Monitor: "http_error_rate", Threshold: 50, Value: 100, Path: "/fails"}}, fails)
	require.Empty(t, a.of("other", pid))
	require.Eventually(t, func() bool { return len(a.of("begins", pid)) == 1 && len(a.of("all", pid)) == 1 }, patience, 20*time.Millisecond)
	begins, all := a.of("begins", pid)[0].Causes, a.of("all", pid)[0].Causes
	require.Equal(t, []model.Cause{{Monitor: "http_error_rate", Threshold: 50, Value: 100, Path: "^/f"}}, begins)
	require.Equal(t, []model.Cause{{Monitor: "http_error_rate", Threshold: 20, Value: all[0].Value}}, all)
	require.GreaterOrEqual(t, all[0].Value, 20.0)
	require.LessOrEqual(t, all[0].Value, 100.0)
	require.Eventually(t, func() bool {
		exported := o.values()
		return exported["ebpf.http.avg_response_time/slow"] >= 0.05 && exported["ebpf.http.error_rate/fails"] == 1
	},
		patience, 50*time.Millisecond)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.metrics {
		for _, metric := range m.Metrics {
			require.Contains(t, []string{"ebpf.http.avg_response_time", "ebpf.http.error_rate"}, metric.Name, "nothing else is exported of the requests that policies use")
		}
	}
}

// values are the exported ones of monitors of paths.
func (o *observed) values() map[string]float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	exported := map[string]float64{}
	for _, m := range o.metrics {
		for _, metric := range m.Metrics {
			for _, p := range metric.Points {
				if last := p.Attributes[len(p.Attributes)-1]; last.Key == "ebpf.policy.uri" {
					exported[metric.Name+last.Value.Text] = p.Float
				}
			}
		}
	}
	return exported
}
