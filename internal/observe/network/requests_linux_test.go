// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
)

func requestConfig() Config {
	c := config()
	c.Requests, c.BufferBytes = true, largeBuffer
	c.interval = orderPatience // each test waits for some rounds of the reader, see handed
	c.quiet = time.Hour        // a test that stands still gives nothing up
	c.patience = &atomic.Int64{}
	c.patience.Store(int64(testPatience))
	return c
}

// testPatience is how long segments wait to be in order, unless handed is called: a thread may stand still between its transfer and the
// program that records it.
const testPatience = time.Second / 2

// requestPoints returns the points of a metric of this process, by method, status and error, of all peers.
func (w *watching) requestPoints(name string) map[string]*model.Histogram {
	w.t.Helper()
	points, ofPeers := map[string]*model.Histogram{}, map[string]bool{}
	for _, m := range w.last.Metrics {
		if m.Process == nil || m.Process.ID.PID != uint32(os.Getpid()) {
			continue
		}
		for _, metric := range m.Metrics {
			if metric.Name != name {
				continue
			}
			for _, p := range metric.Points {
				var of, peer []string
				for _, a := range p.Attributes {
					if strings.Contains(a.Key, "peer") {
						peer = append(peer, a.Key, a.Value.Text, fmt.Sprint(a.Value.Int))
					}
					switch a.Key {
					case "http.request.method", "error.type":
						of = append(of, a.Value.Text)
					case "http.response.status_code":
						of = append(of, fmt.Sprint(a.Value.Int))
					}
				}
				key := strings.Join(of, " ")
				one := key + strings.Join(peer, " ")
				if ofPeers[one] {
					require.NotZero(w.t, w.missed(), "%s is reported twice, though every segment was captured", key) // or more is known of some than of others
				}
				ofPeers[one] = true
				if known, several := points[key]; several {
					both := *known
					both.Count += p.Histogram.Count
					both.Sum += p.Histogram.Sum
					both.Min, both.Max = min(both.Min, p.Histogram.Min), max(both.Max, p.Histogram.Max)
					points[key] = &both
					continue
				}
				points[key] = p.Histogram
			}
		}
	}
	return points
}

// settle waits until what was written to the ring buffer was passed on, reads the losses, and reports.
func (w *watching) settle() {
	w.t.Helper()
	w.handed()
	w.report()
}

// handed waits until what was written to the ring buffer was passed on: a round of the reader may have begun before, what the next one reads
// may wait for another, and after that one it is in order.
func (w *watching) handed() {
	w.t.Helper()
	rounds := uint64(4)
	if patience := w.config.patience; patience != nil {
		short := orderPatience
		if allAsleep() {
			short, rounds = 0, 2 // all is recorded
		}
		defer patience.Store(patience.Swap(int64(short)))
	}
	enough := w.capture.rounds.Load() + rounds
	require.Eventually(w.t, func() bool { return w.capture.rounds.Load() >= enough }, time.Minute, w.capture.interval/4, "the ring is read")
}

// allAsleep waits until the threads of this process and of those that it has started are asleep, but the calling one: they have left the calls in
// which they transferred something, and the programs at these have run. It returns false if some thread goes on and on.
func allAsleep() bool {
	const scans, goesOn = 3, 5 * time.Second
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	asleep := 0
	for began := time.Now(); time.Since(began) < goesOn; time.Sleep(time.Millisecond) {
		if asleep++; busyThreads(os.Getpid(), unix.Gettid()) {
			asleep = 0
		}
		if asleep == scans {
			return true
		}
	}
	return false
}

// busyThreads reports whether a thread of a process, or of one that it has started, is not asleep; one thread is left out.
func busyThreads(pid, without int) bool {
	for _, thread := range proctest.Threads(pid) {
		stat, _ := proctest.ReadStat(thread) // of no state if it has exited
		if path.Base(thread) != strconv.Itoa(without) && (stat.State == 'R' || stat.State == 'D') {
			return true
		}
		children, _ := os.ReadFile(thread + "/children") // kernels without CONFIG_PROC_CHILDREN have no such file
		for _, child := range strings.Fields(string(children)) {
			if id, err := strconv.Atoi(child); err == nil && busyThreads(id, without) {
				return true
			}
		}
	}
	return false
}

// asked is what a client asked for, and what it measured itself.
type asked struct {
	method, path string
	body         []byte
	times        int
}

// answering answers with several statuses, for /slow after a pause, and reads request bodies.
func answering(pause time.Duration) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(pause)
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
	mux.HandleFunc("/take", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, n)
	})
	return mux
}

// askTogether sends all requests concurrently, each as often as it says, and returns the total duration of each. change modifies the requests
// before they are sent.
func askTogether(t *testing.T, client *http.Client, url string, all []asked, change func(*http.Request)) []time.Duration {
	t.Helper()
	took := make([]time.Duration, len(all))
	var together sync.WaitGroup
	for i, a := range all {
		together.Go(func() {
			for range a.times {
				began := time.Now()
				request, err := http.NewRequestWithContext(t.Context(), a.method, url+a.path, bytes.NewReader(a.body))
				if err != nil {
					t.Error(err)
					return
				}
				change(request)
				response, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				took[i] += time.Since(began)
			}
		})
	}
	together.Wait()
	return took
}

// TestRequests checks that both sides report each request once, with its status, sizes and duration; the client has counted and timed them. A
// connection may be from before the start; what is no request is not reported.
func TestRequests(t *testing.T) {
	const pause = 30 * time.Millisecond
	padding := strings.Repeat("p", 1500)
	long := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	mux := answering(pause)
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = w.Write(long)
			w.(http.Flusher).Flush()
		}
	})
	runEachWay(t, func(t *testing.T, by *way) {
		server := httptest.NewServer(mux)
		defer server.Close()
		before := server.Client()
		options(t, before, server.URL)
		w := watch(t, requestConfig(), by.change)
		speakOtherwise(t)
		for range 3 {
			options(t, before, server.URL) // on the connection from before the start
		}
		client := &http.Client{Transport: &http.Transport{}}
		all := []asked{
			{"GET", "/ok", nil, 50}, {"HEAD", "/ok", nil, 7}, {"GET", "/slow", nil, 5}, {"GET", "/fail", nil, 9}, {"GET", "/absent", nil, 11},
			{"POST", "/take", long, 6}, {"PUT", "/take", []byte("xy"), 8}, {"DELETE", "/chunked", nil, 4},
		}
		began := time.Now()
		took := askTogether(t, client, server.URL, all, func(r *http.Request) {
			r.Header.Set("X-Padding", padding) // Go's server reads the first byte separately
		})
		client.CloseIdleConnections()
		w.settle()
		ended := time.Since(began) // of the servers' calls, too
		for _, side := range []struct {
			name           string
			missing, fails string
		}{{"server", "GET 404", "GET 502 502"}, {"client", "GET 404 404", "GET 502 502"}} {
			want := map[string]uint64{
				"GET 200": 50, "HEAD 200": 7, "GET 202": 5, side.fails: 9, side.missing: 11, "POST 201": 6, "PUT 201": 8, "DELETE 200": 4, "OPTIONS 200": 3,
			}
			durations := w.requestPoints("http." + side.name + ".request.duration")
			w.alike(want, counts(durations), side.name)
			slow := durations["GET 202"]
			require.GreaterOrEqual(t, slow.Min, pause.Seconds(), side.name)
			require.LessOrEqual(t, slow.Max, ended.Seconds(), side.name)
			if side.name == "client" {
				require.LessOrEqual(t, slow.Sum, took[2].Seconds(), side.name) // the difference is due to other processes
			}

			if w.missed() > 0 {
				continue // some segments were not captured: the size of their message is unknown
			}
			bodies := w.requestPoints("http." + side.name + ".request.body.size")
			require.EqualValues(t, 6*len(long), bodies["POST 201"].Sum, side.name)
			require.EqualValues(t, 2, bodies["PUT 201"].Max, side.name)
			bodies = w.requestPoints("http." + side.name + ".response.body.size")
			require.EqualValues(t, 5*50, bodies["GET 200"].Sum, side.name)
			require.EqualValues(t, 0, bodies["HEAD 200"].Sum, side.name)
			require.EqualValues(t, len("no\n"), bodies[side.fails].Max, side.name)
			whole := w.requestPoints("ebpf.http." + side.name + ".response.size")
			require.Greater(t, whole["DELETE 200"].Min, 3.0*float64(len(long)), side.name)
			require.Less(t, whole["DELETE 200"].Max, 3.1*float64(len(long)), side.name)
		}
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		// Invalid requests, or responses without one, would be reported of this process under another key; those of others on the host are
		// counted, too.
		for _, reason := range []string{"buffer_full", "connections_full"} {
			require.Zero(t, w.loss(reason), reason)
		}
		require.LessOrEqual(t, w.loss("request_cut"), uint64(2*4), "of chunks the sizes are not all seen, of heads everything is")
	})
}

// TestMeasureServerTimes checks that what a server takes is within what its client measures: a thread that stands still in the call that
// sends a response takes longer.
func TestMeasureServerTimes(t *testing.T) {
	const pause = 30 * time.Millisecond
	runEachWay(t, func(t *testing.T, by *way) {
		for name, protocols := range map[string]*http.Protocols{"HTTP/1": nil, "HTTP/2": cleartext()} {
			server := httptest.NewUnstartedServer(answering(pause))
			server.Config.Protocols = protocols
			server.Start()
			w := watch(t, requestConfig(), by.change)
			client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
			took := askTogether(t, client, server.URL, []asked{{"GET", "/slow", nil, 5}}, func(*http.Request) {})
			client.CloseIdleConnections()
			w.settle()
			server.Close()
			if w.missed() == 0 {
				require.LessOrEqual(t, w.requestPoints("http.server.request.duration")["GET 202"].Sum, took[0].Seconds(), name)
			}
		}
	})
}

// alike checks that requests were counted as often as they were made. Each time that the kernel skipped a program, a request and the next one
// of its connection may be missing.
func (w *watching) alike(want, got map[string]uint64, side string) {
	w.t.Helper()
	missed := 2 * w.missed()
	for key, n := range want {
		require.LessOrEqual(w.t, got[key], n, "%s: %s: %v", side, key, got)
		require.GreaterOrEqual(w.t, got[key]+missed, n, "%s: %s: %v; %v", side, key, got, w.Losses())
	}
	if missed == 0 {
		require.Equal(w.t, want, got, side)
	}
}

// speakOtherwise makes a client and a server exchange bytes that are no requests.
func speakOtherwise(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	for _, bytes := range []string{"GETTING nowhere\r\n\r\n", "\x00\x01\x02\x03\x04\x05\x06\x07", "HTTP", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "a"} {
		_, err = io.WriteString(conn, bytes)
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, len(bytes)))
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	<-done
	require.NoError(t, listener.Close())
}

// options sends an OPTIONS request on the one connection of the client.
func options(t *testing.T, client *http.Client, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, url+"/ok", nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}
