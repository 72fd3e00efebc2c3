// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// clientPatience is how long clients of these tests wait for a response that does not come.
const clientPatience = 100 * time.Millisecond

// impatientTransport returns the transport of a client that waits so long for a response, from when the request is sent: to connect may take
// as long. Another connection has what is answered.
func impatientTransport(version2 bool) *http.Transport {
	transport := patientTransport(version2)
	transport.ResponseHeaderTimeout = clientPatience
	return transport
}

func patientTransport(version2 bool) *http.Transport {
	transport := &http.Transport{}
	if version2 {
		transport.Protocols = cleartext()
	}
	return transport
}

// impatient is a server that does not answer some paths, with the numbers of its requests and responses.
type impatient struct {
	*httptest.Server
	over chan struct{} // closed at the end of the test

	mu       sync.Mutex
	answered map[string]uint64
}

// newImpatient starts a server that speaks HTTP/1 or HTTP/2.
func newImpatient(t *testing.T, version2 bool) *impatient {
	t.Helper()
	s := &impatient{over: make(chan struct{}), answered: map[string]uint64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/fast", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r) })
	mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // the client has closed
		s.answer(w, r)
	})
	mux.HandleFunc("/never", func(http.ResponseWriter, *http.Request) { <-s.over })
	mux.HandleFunc("/refused", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s.Server = httptest.NewUnstartedServer(mux)
	if version2 {
		s.Config.Protocols = cleartext()
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *impatient) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "answered")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered[r.URL.Path]++
}

// wait waits until the server has sent so many responses.
func (s *impatient) wait(t *testing.T, path string, n uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.answered[path] == n
	}, time.Minute, time.Millisecond)
}

// requestLogs returns how many requests of this process are exported as logs with a duration, by role and error type.
func (w *watching) requestLogs() map[string]uint64 {
	logs := map[string]uint64{}
	for _, of := range w.Logs() {
		if of.Process == nil || of.Process.ID.PID != uint32(os.Getpid()) {
			continue
		}
		for _, l := range of.Logs {
			var role, failed, timed string
			for _, a := range l.Attributes {
				switch a.Key {
				case "ebpf.role":
					role = a.Value.Text
				case "error.type":
					failed = a.Value.Text
				case "ebpf.request.duration":
					timed = " timed"
				}
			}
			logs[role+" "+failed+timed]++
		}
	}
	return logs
}

// TestRequestsWithoutAResponse checks that both sides count each request once that its client has given up, or its server has not answered,
// with its duration and how it ended; and that a response that comes later counts only for the server.
func TestRequestsWithoutAResponse(t *testing.T) {
	guest.SameOnEveryKernel(t)
	giveUp(t, func(*testing.T, *model.Histogram, string) {})
}

// TestMeasureRequestsWithoutAResponse checks that requests that were given up took as long as their clients have waited.
func TestMeasureRequestsWithoutAResponse(t *testing.T) {
	giveUp(t, func(t *testing.T, waited *model.Histogram, side string) {
		t.Helper()
		require.InDelta(t, clientPatience.Seconds(), waited.Sum/float64(waited.Count), 0.06, side)
	})
}

// giveUp makes requests, most of which are not answered; judge judges the times of those that were given up.
func giveUp(t *testing.T, judge func(t *testing.T, waited *model.Histogram, side string)) {
	const fast, late, never, refused = 4, 4, 4, 3
	for _, version2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2=%t", version2), func(t *testing.T) {
			runEachWayUntilSeen(t, func(t *testing.T, by *way) bool {
				server := newImpatient(t, version2)
				config := requestConfig()
				config.Journal = requests.JournalConfig{Which: requests.AllRequests, Bytes: 1 << 20}
				w := watch(t, config, by.change)
				patient, impatient := patientTransport(version2), impatientTransport(version2)
				began, failed := time.Now(), 0
				for path, times := range map[string]int{"/fast": fast, "/late": late, "/never": never, "/refused": refused} {
					patient.CloseIdleConnections() // on one that was used before, a refused request would be sent again
					client := &http.Client{Transport: patient}
					if path == "/late" || path == "/never" {
						client.Transport = impatient
					}
					for range times {
						response, err := client.Get(server.URL + path)
						if err != nil {
							failed++
							continue
						}
						_, err = io.Copy(io.Discard, response.Body)
						require.NoError(t, err)
						require.NoError(t, response.Body.Close())
					}
				}
				require.Equal(t, late+never+refused, failed, "by the client's own count")
				patient.CloseIdleConnections()
				impatient.CloseIdleConnections()
				server.wait(t, "/late", late)
				w.handed()
				elapsed := time.Since(began)
				require.NoError(t, w.Stop())
				w.report()
				logs := w.requestLogs()
				close(server.over)
				if w.missed() > 0 {
					return false
				}
				answered, gone := uint64(fast), uint64(never)
				if version2 {
					gone += late // a stream that was reset cannot be answered
				} else {
					answered += late // written to a client that has closed
				}
				for side, want := range map[string]map[string]uint64{
					"client": {"GET 200 ": fast, "GET 0 timeout": late + never, "GET 0 no_response": refused},
					"server": {"GET 200 ": answered, "GET 0 client_closed": gone, "GET 0 no_response": refused},
				} {
					got := w.endings(self{}, side)
					require.Equal(t, want, counts(got), side)
					require.Zero(t, w.sum(self{}, "ebpf.http."+side+".requests.untimed"), side)
					for _, waited := range []*model.Histogram{got["GET 0 timeout"], got["GET 0 client_closed"]} {
						if waited != nil { // a server has read the request later, and sees it given up at the same time
							require.LessOrEqual(t, waited.Sum/float64(waited.Count), elapsed.Seconds(), side)
							judge(t, waited, side)
						}
					}
					if waited := got["GET 0 timeout"]; waited != nil {
						require.GreaterOrEqual(t, waited.Sum/float64(waited.Count), clientPatience.Seconds(), side)
					}
				}
				require.Equal(t, map[string]uint64{
					"client  timed": fast, "client timeout timed": late + never, "client no_response timed": refused,
					"server  timed": answered, "server client_closed timed": gone, "server no_response timed": refused,
				}, logs)
				return true
			})
		})
	}
}

// TestRequestsWithoutAResponseThroughTLS checks that both sides count each request through TLS once that its client has given up, or its
// server has not answered.
func TestRequestsWithoutAResponseThroughTLS(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const times = 8
	program := testbin.Go(t, "testdata/gotls")
	pairs := map[string]func(t *testing.T) (server, client *speaker, functions int){
		"Go, HTTP/1": func(t *testing.T) (server, client *speaker, functions int) {
			server, client = goPair(t, program, "server", "client", times)
			return server, client, goFunctions
		},
		"Go, HTTP/2": func(t *testing.T) (server, client *speaker, functions int) {
			server, client = goPair(t, program, "server2", "client2", times)
			return server, client, goFunctions
		},
	}
	for name, suffix := range map[string]string{"OpenSSL": "", "OpenSSL on memory": "-memory"} {
		pairs[name] = func(t *testing.T) (server, client *speaker, functions int) {
			cert, key := certificate(t)
			server = speak(t, "python3", "testdata/https.py", "server"+suffix, cert, key)
			client = speak(t, "python3", "testdata/https.py", "client"+suffix, server.line(), strconv.Itoa(times))
			require.Equal(t, "ready", client.line())
			return server, client, openSSLFunctions
		}
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			untilSeen(t, func(t *testing.T) bool {
				server, client, functions := pair(t)
				config, scope := tlsConfig(t)
				w := watch(t, config, nil)
				w.attachedTo(scope, 2*functions, server, client)
				require.Equal(t, 2*times, client.ask("/ok", "/never"))
				w.handed()
				require.NoError(t, w.Stop())
				w.report()
				if w.missed() > 0 {
					return false
				}
				require.Equal(t, map[string]uint64{"GET 200 ": times, "GET 0 timeout": times}, counts(w.endings(client, "client", "ebpf.tls=true")))
				require.Equal(t, map[string]uint64{"GET 200 ": times, "GET 0 client_closed": times}, counts(w.endings(server, "server", "ebpf.tls=true")))
				return true
			})
		})
	}
}

// TestLateConnectionsWhoseRequestsFail checks that requests without a response are counted on a connection that began before its library was
// attached to, although no request on it is ever answered.
func TestLateConnectionsWhoseRequestsFail(t *testing.T) {
	const times = 8
	server, client := goPair(t, testbin.Go(t, "testdata/gotls"), "server2", "keeping2", times)
	config, scope := tlsConfig(t)
	w := watch(t, config, nil)
	require.Equal(t, times, client.ask("/ok"))
	w.attachedTo(scope, 2*goFunctions, server, client)
	require.Equal(t, times, client.ask("/never"))
	w.handed()
	require.NoError(t, w.Stop())
	w.report()
	require.Equal(t, map[string]uint64{"GET 0 timeout": times}, counts(w.endings(client, "client", "ebpf.tls=true")))
	// The server may have been in the call that reads the first one.
	got := counts(w.endings(server, "server", "ebpf.tls=true"))["GET 0 client_closed"]
	require.True(t, got == times || got == times-1, "%d of %d", got, times)
	require.Zero(t, w.opaqueOfAll())
}

// endings returns the durations of the requests of a process with these attributes, by method, status and error type.
func (w *watching) endings(of process, side string, wanted ...string) map[string]*model.Histogram {
	all := map[string]*model.Histogram{}
	for _, p := range w.points(of, "http."+side+".request.duration", wanted...) {
		key := inShort(p)
		if all[key] == nil {
			all[key] = &model.Histogram{}
		}
		all[key].Count += p.Histogram.Count
		all[key].Sum += p.Histogram.Sum
	}
	return all
}

// inShort returns a point's method, status and error type.
func inShort(p model.Point) string {
	var method, failed string
	var code int64
	for _, a := range p.Attributes {
		switch a.Key {
		case "http.request.method":
			method = a.Value.Text
		case "http.response.status_code":
			code = a.Value.Int
		case "error.type":
			failed = a.Value.Text
		}
	}
	return fmt.Sprint(method, " ", code, " ", failed)
}

// TestPoliciesSeeRequestsWithoutAResponse checks that policies get requests that were given up, although their server keeps the connection,
// whether requests to their path leave the kernel or are counted there.
func TestPoliciesSeeRequestsWithoutAResponse(t *testing.T) {
	guest.SameOnEveryKernel(t)
	giveUpForPolicies(t, func(*testing.T, tally) {})
}

// TestMeasurePoliciesOfRequestsWithoutAResponse checks that policies get requests that were given up with the time that their clients have
// waited.
func TestMeasurePoliciesOfRequestsWithoutAResponse(t *testing.T) {
	giveUpForPolicies(t, func(t *testing.T, never tally) {
		t.Helper()
		each := float64(60 * time.Millisecond)
		require.InDelta(t, time.Duration(never.requests)*clientPatience, never.took, float64(never.requests)*each)
	})
}

// giveUpForPolicies makes requests, most of which are not answered; judge judges what policies get of those that never are.
func giveUpForPolicies(t *testing.T, judge func(t *testing.T, never tally)) {
	const times, late = 4, 3
	for name, wanted := range map[string]Wanted{
		"reported": {Reported: []string{"/never", "/late", "/fast"}}, "counted": {Counted: []string{"/never", "/late", "/fast"}}, "begun": {Begun: []string{"/never", "/late", "/fast"}},
	} {
		for _, version2 := range []bool{false, true} {
			if version2 && name != "reported" {
				continue // all of HTTP/2 leaves the kernel
			}
			t.Run(fmt.Sprintf("%s, HTTP/2=%t", name, version2), func(t *testing.T) {
				runEachWayUntilSeen(t, func(t *testing.T, by *way) bool {
					server := newImpatient(t, version2)
					defer close(server.over)
					config := requestConfig()
					config.quiet = 2 * clientPatience
					n := count(t, config, by, os.Getpid(), wanted, "/never", "/late", "/fast")
					n.config.patience.Store(int64(time.Hour)) // until all is said: no request is given up because its response comes late
					transport := impatientTransport(version2)
					defer transport.CloseIdleConnections()
					began, client := time.Now(), &http.Client{Transport: transport}
					for path, times := range map[string]int{"/never": times, "/late": late} {
						for range times {
							_, err := client.Get(server.URL + path)
							require.Error(t, err)
						}
					}
					patient := patientTransport(version2)
					response, err := (&http.Client{Transport: patient}).Get(server.URL + "/fast")
					require.NoError(t, err)
					require.NoError(t, response.Body.Close())
					patient.CloseIdleConnections()
					transport.CloseIdleConnections()
					server.wait(t, "/late", late)
					allAsleep()
					elapsed := time.Since(began)
					n.config.patience.Store(int64(orderPatience))
					require.Eventually(t, func() bool {
						n.take(t)
						return n.all.ofPath("/never").requests >= times && n.all.ofPath("/fast").requests > 0 && n.all.ofPath("/late").requests >= late || n.missed() > 0
					}, time.Minute, 10*time.Millisecond)
					if n.missed() > 0 {
						return false
					}
					if !n.exact() {
						return guest.Running() // of which those before 5.12 do not count what they leave out
					}
					time.Sleep(2 * config.quiet) // time enough to count twice
					n.take(t)
					got := n.all.ofPath("/never")
					require.EqualValues(t, []uint64{times, times}, []uint64{got.requests, got.errors})
					require.LessOrEqual(t, got.took, times*elapsed)
					judge(t, got)
					require.Equal(t, []uint64{1, 0}, []uint64{n.all.ofPath("/fast").requests, n.all.ofPath("/fast").errors})
					got = n.all.ofPath("/late")
					failed := uint64(0)
					if version2 {
						failed = late // of a stream that was reset nothing is answered
					}
					require.EqualValues(t, []uint64{late, failed}, []uint64{got.requests, got.errors})
					return true
				})
			})
		}
	}
}
