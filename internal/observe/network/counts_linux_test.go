// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bufio"
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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// tally is the count of requests to one path.
type tally struct {
	requests, errors uint64
	took             time.Duration
}

// tallied are the requests of a process, by path; those that are not listed are counted together.
type tallied struct {
	pid   uint32
	paths []string

	mu      sync.Mutex
	of      map[string]tally
	seconds map[int64]uint64
	// close are requests that ended so near the end of a second that another program may see it in the next one.
	close uint64
}

func newTallied(pid int, paths []string) *tallied {
	return &tallied{pid: uint32(pid), paths: paths, of: map[string]tally{}, seconds: map[int64]uint64{}}
}

func (l *tallied) add(path string, second int64, t tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.paths, path) {
		path = ""
	}
	sum := l.of[path]
	l.of[path] = tally{sum.requests + t.requests, sum.errors + t.errors, sum.took + t.took}
	l.seconds[second] += t.requests
}

// ofPath returns the tally of a path.
func (l *tallied) ofPath(path string) tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[path]
}

func (l *tallied) answered(a Answer) {
	if a.Subject.PID != l.pid {
		return
	}
	t := tally{requests: 1, took: a.Took}
	if a.Status >= 500 && a.Status <= 599 || a.Unanswered {
		t.errors = 1
	}
	l.add(string(a.Path), a.Ended/int64(time.Second), t)
	const near = 20 * time.Millisecond
	if off := time.Duration(a.Ended % int64(time.Second)); min(off, time.Second-off) < near {
		l.mu.Lock()
		l.close++
		l.mu.Unlock()
	}
}

// counter is an observer for policies that need only the number of requests.
type counter struct {
	*narrowed
	all     *tallied
	counted uint64 // in the kernel
	began   int64  // the second of CLOCK_MONOTONIC at the start
}

// count starts a counter, and counts the same requests in l.
func count(t *testing.T, c Config, by *way, pid int, wanted Wanted, paths ...string) *counter {
	t.Helper()
	now, _, err := kernel.Monotonic()
	require.NoError(t, err)
	n := &counter{all: newTallied(pid, paths), began: now / int64(time.Second)}
	c.Answered = n.all.answered
	n.narrowed = narrowWanted(t, c, by, pid, wanted)
	require.NoError(t, n.paths.SetClock(0))
	return n
}

// take reads what the kernel has counted.
func (n *counter) take(t *testing.T) {
	t.Helper()
	now, _, err := kernel.Monotonic()
	require.NoError(t, err)
	require.NoError(t, n.paths.Take(now/int64(time.Second), func(c Count) {
		if c.Subject.PID == n.all.pid {
			n.counted += c.Requests
			n.all.add(c.Path, c.Second, tally{c.Requests, c.Errors, c.Took})
		}
	}))
}

// requireSame checks that both have counted the same requests, in seconds of the test.
func (n *counter) requireSame(t *testing.T, heard *tallied) {
	t.Helper()
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	heard.mu.Lock()
	defer heard.mu.Unlock()
	for path, want := range heard.of {
		got := n.all.of[path]
		require.Equal(t, want.requests, got.requests, "requests to %q", path)
		require.Equal(t, want.errors, got.errors, "errors of %q", path)
		require.Equal(t, want.took > 0, got.took > 0, "time of %q", path)
	}
	require.Len(t, n.all.of, len(heard.of))
	now, _, err := kernel.Monotonic()
	require.NoError(t, err)
	for second := range n.all.seconds {
		require.GreaterOrEqual(t, second, n.began, "%v", n.all.seconds)
		require.LessOrEqual(t, second, now/int64(time.Second), "%v", n.all.seconds)
	}
}

// requireSameTimes checks that both have counted the same requests at about the same times: one program runs before the other.
func (n *counter) requireSameTimes(t *testing.T, heard *tallied) {
	t.Helper()
	n.requireSame(t, heard)
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	heard.mu.Lock()
	defer heard.mu.Unlock()
	for path, want := range heard.of {
		require.InDelta(t, want.took, n.all.of[path].took, float64(time.Duration(want.requests)*2*time.Millisecond)+float64(want.took)/10, "time of %q", path)
	}
	var moved uint64
	for second, want := range heard.seconds {
		if got := n.all.seconds[second]; got > want {
			moved += got - want
		}
	}
	require.LessOrEqual(t, moved, heard.close, "requests in another second: %v, %v", heard.seconds, n.all.seconds)
}

// answerInAllWays answers with responses that have their length in the head, and others.
func answerInAllWays(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if status, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
		w.WriteHeader(status)
		return
	}
	switch r.URL.Path {
	case "/pay":
		w.WriteHeader(http.StatusBadGateway)
	case "/dropped":
		panic(http.ErrAbortHandler)
	case "/slow":
		time.Sleep(20 * time.Millisecond)
	case "/long", "/cut":
		const length = 300_000
		w.Header().Set("Content-Length", strconv.Itoa(length))
		for n := 0; n < length; n += length / 3 {
			if n > 0 && r.URL.Path == "/cut" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, strings.Repeat("x", length/3))
			w.(http.Flusher).Flush()
		}
		return
	case "/chunks":
		for range 3 {
			_, _ = io.WriteString(w, "part\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
		return
	}
	_, _ = io.WriteString(w, "done")
}

// TestRequestsAreCountedInTheKernel checks that the kernel's counts of requests, together with the requests that it cannot follow and exports
// instead, are what user space counts of the same connections if it gets all requests.
func TestRequestsAreCountedInTheKernel(t *testing.T) {
	guest.TakesLong(t)
	countInTheKernel(t, (*counter).requireSame)
}

// TestMeasureTimesCountedInTheKernel checks that the kernel counts the times of requests that user space finds, in the same seconds.
func TestMeasureTimesCountedInTheKernel(t *testing.T) {
	countInTheKernel(t, (*counter).requireSameTimes)
}

// countInTheKernel makes requests of many kinds; judge compares the counts of both.
func countInTheKernel(t *testing.T, judge func(n *counter, t *testing.T, heard *tallied)) {
	runEachWay(t, func(t *testing.T, by *way) {
		server := httptest.NewServer(http.HandlerFunc(answerInAllWays))
		defer server.Close()
		address := server.Listener.Addr().String()
		paths := []string{"/pay", "/slow"}
		heard := newTallied(os.Getpid(), paths)
		c := requestConfig()
		c.Answered = heard.answered
		all := narrow(t, c, by, os.Getpid(), "/")
		n := count(t, requestConfig(), by, os.Getpid(), Wanted{Counted: paths, Begun: []string{"/paym"}, Rest: true}, paths...)
		n.left()
		exact := func() bool {
			all.settle()
			n.settle()
			n.take(t)
			return all.exact() && n.exact()
		}
		body := []byte(strings.Repeat("GET /pay HTTP/1.1\r\n\r\n", 2000))

		t.Run("responses that say how long they are", func(t *testing.T) {
			n.t, all.t = t, t
			requests := []asked{
				{"GET", "/", nil, 30}, {"GET", "/pay", nil, 20}, {"GET", "/pay?x=1", nil, 10}, {"GET", "/payment", nil, 10}, {"GET", "/slow", nil, 10},
				{"GET", "/long", nil, 5}, {"HEAD", "/long", nil, 5}, {"POST", "/slow", body, 5}, {"POST", "/", []byte("less"), 10},
				{"GET", "/?status=204", nil, 5}, {"GET", "/?status=304", nil, 5}, {"GET", "/?status=503", nil, 5}, {"GET", "/pay?status=404", nil, 5},
			}
			want := 0
			for _, one := range requests {
				want += 2 * one.times
			}
			askTogether(t, server.Client(), server.URL, requests, func(*http.Request) {})
			askTogether(t, server.Client(), server.URL, requests, func(r *http.Request) { r.Close = true })
			if exact() {
				require.Zero(t, n.left(), "segments that have left the kernel")
				require.EqualValues(t, want, n.counted)
				judge(n, t, heard)
			}
		})
		t.Run("others", func(t *testing.T) {
			n.t, all.t = t, t
			askTogether(t, server.Client(), server.URL, []asked{{"GET", "/chunks", nil, 5}, {"GET", "/pay", nil, 5}, {"GET", "/slow", nil, 5}}, func(*http.Request) {})
			askTogether(t, server.Client(), server.URL, []asked{{"POST", "/pay", body, 5}}, func(r *http.Request) { r.ContentLength = -1 })
			askTogether(t, server.Client(), server.URL, []asked{{"POST", "/slow", body, 5}}, func(r *http.Request) { r.Header.Set("Expect", "100-continue") })
			n.sayEach(address, getting("/pay"), chunked("/c", "GET /pay", "x"), getting("/pay?x"), getting("/"+strings.Repeat("p", 200)),
				"PROPFIND /pay HTTP/1.1\r\nHost: test\r\n\r\n", "GET http://test/pay HTTP/1.1\r\nHost: test\r\n\r\n", getting("/slow"))
			waits := fmt.Sprintf("POST /slow HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
			n.sayEach(address, waits, string(body), getting("/slow"), getting("/slow")) // the body begins like a request, and is read separately
			n.sayEach(address, "GET /pay HTTP/1.0\r\nHost: test\r\n\r\n")
			n.sayEach(address, "GET /chunks HTTP/1.0\r\nHost: test\r\n\r\n")
			for _, pause := range []time.Duration{0, 5 * time.Millisecond} {
				say(t, address, pause, 4, getting("/slow")+getting("/pay")+getting("/slow")+getting("/"))
				say(t, address, pause, 4, getting("/slow"), getting("/pay"), getting("/slow"), getting("/"))
				say(t, address, pause, 8, getting("/slow"), getting("/pay"), getting("/slow"), getting("/"), getting("/slow"), getting("/pay"), getting("/slow"), getting("/"))
			}
			if exact() {
				judge(n, t, heard)
			}
		})
		t.Run("not answered", func(t *testing.T) {
			n.t, all.t = t, t
			const times = 5
			before := n.all.ofPath("")
			for range times {
				_, err := server.Client().Post(server.URL+"/dropped", "text/plain", strings.NewReader("may not be sent again"))
				require.ErrorIs(t, err, io.EOF)
			}
			if exact() {
				after := n.all.ofPath("")
				require.EqualValues(t, []uint64{times, times}, []uint64{after.requests - before.requests, after.errors - before.errors})
				judge(n, t, heard)
			}
		})
		t.Run("cut off", func(t *testing.T) {
			n.t, all.t = t, t
			for range 3 {
				cut(t, address, getting("/cut"))
			}
			require.Eventually(t, func() bool { // when its connections were closed, which no one waits for
				if !exact() {
					return true // what was not captured never comes
				}
				n.all.mu.Lock()
				defer n.all.mu.Unlock()
				heard.mu.Lock()
				defer heard.mu.Unlock()
				return n.all.of[""].requests == heard.of[""].requests
			}, time.Minute, 10*time.Millisecond)
			if exact() {
				judge(n, t, heard)
			}
		})
	})
}

// cut sends a request whose response is truncated.
func cut(t *testing.T, address, request string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	_, err = io.Copy(io.Discard, response.Body)
	require.Error(t, err)
}

// TestCounts checks that counts are taken once, by the paths of their set, and deleted when their second is over.
func TestCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making BPF maps needs root")
	}
	p, err := NewPaths()
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	long := "/" + strings.Repeat("l", pathBytes)
	require.NoError(t, p.Set(7, Wanted{Counted: []string{"/a", long, "/b"}}))
	var taken []string
	take := func(now int64) []string {
		taken = nil
		require.NoError(t, p.Take(now, func(c Count) {
			require.NoError(t, p.Remove(9), "the callee may hold a lock under which others ask for paths")
			taken = append(taken, fmt.Sprintf("%d %d %s %d %d %s", c.Subject.PID, c.Second, c.Path, c.Requests, c.Errors, c.Took))
		}))
		slices.Sort(taken)
		return taken
	}
	put := func(second, path uint32, v valueSums) {
		require.NoError(t, p.values.Put(&valueKey{Pid: 7, StartBoottime: 70, ExecId: 1, Set: 1, Path: path, Second: second}, &v))
	}
	require.Empty(t, take(100))
	put(100, 1, valueSums{Requests: 2, Errors: 1, Took: 3000})
	put(100, pathRest, valueSums{Requests: 1, Took: 500})
	require.Equal(t, []string{"7 100  1 0 500ns", "7 100 /a 2 1 3µs"}, take(100))
	require.Empty(t, take(101))
	put(100, 1, valueSums{Requests: 5, Errors: 1, Took: 9000})
	put(101, 3, valueSums{Requests: 1, Errors: 1, Took: 1000})
	require.NoError(t, p.Remove(7))
	require.Equal(t, []string{"7 100 /a 3 0 6µs", "7 101 /b 1 1 1µs"}, take(101))
	require.Empty(t, take(200))
	require.Empty(t, p.taken)
	require.Empty(t, p.numbers)
	var key valueKey
	require.Error(t, p.values.NextKey(nil, &key), "nothing is left")

	require.NoError(t, p.Set(8, Wanted{Counted: []string{"/a"}, Begun: []string{"/b"}, Rest: true}))
	for request, want := range map[skippedRequest]string{
		{Set: 2, Path: 2}: "/b", {Set: 2, Path: pathRest}: "", {Set: 1, Path: 1}: "", {}: "", {Set: 2, Path: 3}: "",
	} {
		path, begins := p.skippedPath(8, skippedOf(skippedTag(request)))
		require.Equal(t, want, path, request)
		require.Equal(t, want == "/b", begins)
	}
}
