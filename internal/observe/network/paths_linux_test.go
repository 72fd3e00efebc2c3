// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// heard are requests of a process that were passed to policies, by path and status.
type heard struct {
	pid   uint32
	mu    sync.Mutex
	count map[string]int
	took  map[string][]time.Duration
}

func (h *heard) answered(a Answer) {
	if a.Subject.PID != h.pid {
		return // other processes of the host
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := fmt.Sprintf("%s %d", a.Path, a.Status)
	h.count[key]++
	if a.Timed {
		h.took[key] = append(h.took[key], a.Took)
	}
}

// take returns what was heard, and clears it.
func (h *heard) take() (count map[string]int, took map[string][]time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	count, took = h.count, h.took
	h.count, h.took = map[string]int{}, map[string][]time.Duration{}
	return count, took
}

// narrowed is an observer for policies that need only some paths.
type narrowed struct {
	*watching
	*heard
	paths    *Paths
	segments atomic.Uint64
	torn     atomic.Uint64
	before   uint64
}

// narrow starts one for the requests that a process answers.
func narrow(t *testing.T, c Config, by *way, pid int, targets ...string) *narrowed {
	t.Helper()
	return narrowWanted(t, c, by, pid, Wanted{Reported: targets})
}

func narrowWanted(t *testing.T, c Config, by *way, pid int, wanted Wanted) *narrowed {
	t.Helper()
	n := &narrowed{heard: &heard{pid: uint32(pid), count: map[string]int{}, took: map[string][]time.Duration{}}}
	var err error
	n.paths, err = NewPaths()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.paths.Close()) })
	require.NoError(t, n.paths.Set(uint32(pid), wanted))
	c.MapBytes, c.BufferBytes = 64<<20, 8<<20 // the host's other connections are captured, too
	c.Only, c.Protocols, c.OnlyAnswered, c.Paths = Server, []Protocol{HTTP, HTTP2}, true, n.paths
	if c.Answered == nil {
		c.Answered = n.answered
	}
	c.left = func(of, length uint32, _ int) {
		if of == uint32(pid) && length > 0 {
			n.segments.Add(1)
		}
	}
	c.exchanged = func(of uint32, e *l7.Exchange) {
		if of == uint32(pid) && !(e.Request.Known && e.Response.Known && e.Outcome == l7.Complete) {
			n.torn.Add(1)
		}
	}
	n.watching = watch(t, c, by.change)
	n.settle()
	n.left()
	return n
}

// left returns how many segments have left the kernel since the last call.
func (n *narrowed) left() uint64 {
	n.t.Helper()
	n.settle()
	now := n.segments.Load()
	defer func() { n.before = now }()
	return now - n.before
}

// exact reports whether all of this process was captured: the kernel has skipped no program, and other processes of the host have not filled
// the tables. Before 5.12 it does not count the programs that it skips, which it does often if it is emulated.
func (n *narrowed) exact() bool {
	n.t.Helper()
	if guest.Running() && !n.features.socketStorage || n.missed() > 0 {
		n.t.Log("the kernel has left out programs, or may have: what was seen is not compared")
		return false
	}
	for _, loss := range n.Losses() {
		if slices.Contains([]string{"series_full", "sockets_full", "threads_full", "buffer_full", "connections_full"}, loss.Reason) && loss.Count > 0 {
			n.t.Logf("%d times %s, by others on the host: what was seen is not compared", loss.Count, loss.Reason)
			return false
		}
	}
	return true
}

// whole checks that each request was reported with its response, and nothing else.
func (n *narrowed) whole() {
	n.t.Helper()
	require.Zero(n.t, n.torn.Swap(0), "requests without a response, and responses without a request")
}

// answerPaths answers by path: each with a status of its own.
func answerPaths(pause time.Duration) http.Handler {
	long := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case strings.HasPrefix(r.URL.Path, "/pay"):
			w.WriteHeader(http.StatusAccepted)
		case r.URL.Path == "/slow":
			time.Sleep(pause)
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/long":
			_, _ = w.Write(long)
		}
		_, _ = io.WriteString(w, "done")
	})
}

// say writes requests on one connection, with a pause after each, and reads as many responses.
func say(t *testing.T, address string, pause time.Duration, responses int, parts ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for _, part := range parts {
		_, err := io.WriteString(conn, part)
		require.NoError(t, err)
		time.Sleep(pause) // so that it is read separately; nothing is wrong if it is not
	}
	from := bufio.NewReader(conn)
	for range responses {
		response, err := http.ReadResponse(from, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
}

// sayEach writes requests on one connection, each after the response to the one before.
func (n *narrowed) sayEach(address string, requests ...string) {
	n.t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(n.t, err)
	defer func() { require.NoError(n.t, conn.Close()) }()
	from := bufio.NewReader(conn)
	for _, request := range requests {
		_, err := io.WriteString(conn, request)
		require.NoError(n.t, err)
		response, err := http.ReadResponse(from, nil)
		require.NoError(n.t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(n.t, errors.Join(err, response.Body.Close()))
	}
}

func getting(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n" }

func posting(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: test\r\ncontent-LENGTH: %d\r\n\r\n%s", path, len(body), body)
}

func chunked(path string, chunks ...string) string {
	var b strings.Builder
	b.WriteString("POST " + path + " HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, chunk := range append(chunks, "") {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	return b.String()
}

// TestOnlyWantedPathsLeaveTheKernel checks that nothing leaves the kernel of requests to other paths, and that those to the wanted ones are
// reported once each, however they are mixed, split and pipelined; the client has counted them.
func TestOnlyWantedPathsLeaveTheKernel(t *testing.T) {
	const pause = 30 * time.Millisecond
	runEachWay(t, func(t *testing.T, by *way) {
		server := httptest.NewServer(answerPaths(pause))
		defer server.Close()
		n := narrow(t, requestConfig(), by, os.Getpid(), "/pay", "/slow ", "/slow?")
		address := server.Listener.Addr().String()
		body := strings.Repeat("GET /pay HTTP/1.1\r\n\r\n", 5000) // as if requests began in it

		t.Run("others", func(t *testing.T) {
			n.t = t
			all := []asked{
				{"GET", "/", nil, 50}, {"GET", "/slower", nil, 20}, {"GET", "/long", nil, 5}, {"GET", "/other/pay?to=/pay", nil, 20},
				{"POST", "/take", []byte("less"), 10}, {"POST", "/take", []byte(body), 5}, {"HEAD", "/long", nil, 10},
			}
			askTogether(t, server.Client(), server.URL, all, func(*http.Request) {})
			server.Client().CloseIdleConnections()
			segments := n.left()
			count, _ := n.take()
			if n.exact() {
				require.Empty(t, count)
				require.Zero(t, segments, "segments that have left the kernel")
				n.whole()
			}
		})
		t.Run("mixed", func(t *testing.T) {
			n.t = t
			const each = 20
			for range each {
				// On one connection, one after the other.
				askTogether(t, server.Client(), server.URL, []asked{{"GET", "/pay", nil, 1}}, func(*http.Request) {})
				askTogether(t, server.Client(), server.URL, []asked{{"POST", "/other", []byte(body), 1}}, func(*http.Request) {})
				askTogether(t, server.Client(), server.URL, []asked{{"POST", "/payment?x=1", []byte(body), 1}}, func(*http.Request) {})
				askTogether(t, server.Client(), server.URL, []asked{{"GET", "/long", nil, 1}, {"GET", "/slow", nil, 1}}, func(*http.Request) {})
			}
			unknownLength := func(r *http.Request) { r.ContentLength = -1 }
			for range each {
				askTogether(t, server.Client(), server.URL, []asked{{"POST", "/chunks", []byte(body), 1}}, unknownLength)
				askTogether(t, server.Client(), server.URL, []asked{{"POST", "/pay/chunks", []byte(body), 1}}, unknownLength)
			}
			n.settle()
			count, took := n.take()
			if !n.exact() {
				return
			}
			require.Equal(t, each, count["/pay 202"])
			require.Equal(t, each, count["/payment 202"])
			require.Equal(t, each, count["/pay/chunks 202"])
			require.Equal(t, each, count["/slow 502"])
			require.GreaterOrEqual(t, slices.Min(took["/slow 502"]), pause)
			n.whole()
		})
		for name, parts := range map[string][]string{
			"one transfer":        {getting("/a") + getting("/pay") + getting("/b") + getting("/pay/2")},
			"one after the other": {getting("/a"), getting("/pay"), getting("/b"), getting("/pay/2")},
			"wanted first":        {getting("/pay"), getting("/a"), getting("/pay/2"), getting("/b")},
			"behind a body":       {posting("/a", "body")[:40], posting("/a", "body")[40:] + getting("/pay"), getting("/b"), getting("/pay/2")},
			"many":                {strings.Repeat(getting("/a"), 12) + getting("/pay") + getting("/pay/2") + getting("/b")},
		} {
			for _, between := range []time.Duration{0, pause / 3} {
				t.Run(fmt.Sprintf("pipelined %s %s", name, between), func(t *testing.T) {
					n.t = t
					all := strings.Join(parts, "")
					responses := strings.Count(all, "Host: test")
					say(t, address, between, responses, parts...)
					n.settle()
					count, _ := n.take()
					wanted := 0
					exact := n.exact()
					for key, times := range count {
						if strings.HasPrefix(key, "/pay") {
							require.True(t, !exact || strings.HasSuffix(key, " 202"), key)
							wanted += times
						} else if exact {
							require.NotContains(t, key, "202")
						}
					}
					if exact {
						require.Equal(t, 2, wanted, "%v", count)
						n.whole()
					}
				})
			}
		}
		t.Run("heads that are not as most are", func(t *testing.T) {
			n.t = t
			long := func(path string) string {
				return strings.Replace(getting(path), "Host", "X: "+strings.Repeat("y", 6000)+"\r\nHost", 1)
			}
			n.sayEach(address, getting("/a?"+strings.Repeat("x", 5000)), getting("/pay"), long("/b"), long("/pay"), getting("/"+strings.Repeat("p", 200)), getting("/pay"),
				chunked("/c", "GET /pay", body, "x"), chunked("/pay", "0", body), chunked("/d", "y"), getting("/e"),
				"PROPFIND /pay HTTP/1.1\r\nHost: test\r\n\r\n", getting("/f"))
			n.settle()
			count, _ := n.take()
			if n.exact() {
				require.Equal(t, 5, count["/pay 202"], "%v", count)
				n.whole()
			}
		})
		t.Run("byte by byte", func(t *testing.T) {
			n.t = t
			say(t, address, time.Millisecond, 2, strings.Split(getting("/other")+getting("/pay/slowly"), "")...)
			n.settle()
			count, _ := n.take()
			if n.exact() {
				require.Equal(t, 1, count["/pay/slowly 202"], "%v", count)
				n.whole()
			}
		})
		t.Run("all again", func(t *testing.T) {
			n.t = t
			require.NoError(t, n.paths.Remove(uint32(os.Getpid())))
			askTogether(t, server.Client(), server.URL, []asked{{"GET", "/anything", nil, 3}}, func(*http.Request) {})
			n.settle()
			count, _ := n.take()
			if n.exact() {
				require.Equal(t, map[string]int{"/anything 200": 3}, count)
				n.whole()
			}
		})
	})
}

// TestOnlyWantedPathsThroughTLS checks, of what TLS libraries decrypt and encrypt, that nothing leaves the kernel of requests to other paths,
// and that those to the wanted ones are reported once each.
func TestOnlyWantedPathsThroughTLS(t *testing.T) {
	guest.TakesLong(t)
	const times = 20
	program := testbin.Go(t, "testdata/gotls")
	for name, by := range map[string]struct{ server, client party }{
		"go":      {obliging(goFunctions, program, "server"), obliging(goFunctions, program, "client")},
		"openssl": {obliging(openSSLFunctions, "python3", "testdata/https.py", "server"), obliging(openSSLFunctions, "python3", "testdata/https.py", "client")},
	} {
		t.Run(name, func(t *testing.T) {
			runEachWay(t, func(t *testing.T, way *way) {
				cert, key := certificate(t)
				server := by.server.start(t, cert, key)
				port := server.line()
				client := by.client.start(t, port, strconv.Itoa(times))
				require.Equal(t, "ready", client.line())
				config, scope := tlsConfig(t)
				n := narrow(t, config, way, server.PID(), "/there ", "/there?")
				n.attachedTo(scope, by.server.functions, server)
				require.NotZero(t, by.client.ask(client, port, times, []string{"/here", "/absent"}))
				segments := n.left()
				require.NotZero(t, by.client.ask(client, port, times, []string{"/there", "/here", "/there"}))
				n.settle()
				count, _ := n.take()
				if n.exact() && !n.leavesOut() { // else some of the calls were not captured
					require.Zero(t, segments, "segments that have left the kernel")
					require.Equal(t, map[string]int{"/there 200": 2 * times}, count)
					n.whole()
				}
				require.NoError(t, n.paths.Set(uint32(server.PID()), Wanted{Counted: []string{"/there"}, Rest: true}))
				n.left()
				require.NotZero(t, by.client.ask(client, port, times, []string{"/there", "/here", "/there"}))
				segments = n.left()
				counted := map[string]uint64{}
				require.NoError(t, n.paths.Take(0, func(c Count) {
					if c.Subject.PID == uint32(server.PID()) {
						counted[c.Path] += c.Requests
					}
				}))
				if n.exact() && !n.leavesOut() {
					require.Equal(t, map[string]uint64{"/there": 2 * times, "": times}, counted)
					require.Zero(t, segments, "segments that have left the kernel")
				}
			})
		})
	}
}
