// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// uringWays are the ways of testdata/uring.c to receive and send.
var uringWays = []string{
	"plain", "message", "read", "readv", "fixed", "multishot", "multishot-message", "linked", "halves", "silent", "zerocopy", "async", "sqpoll",
}

const uringConnections, uringTimes = 4, 25

// uringProgram compiles testdata/uring.c.
func uringProgram(t *testing.T) string {
	t.Helper()
	if err := nettest.RingRefused(); err != nil {
		t.Skipf("this host refuses io_uring: %v", err)
	}
	if !featuresFor(t).lengths {
		t.Skip("the program needs Linux 6.3")
	}
	return testbin.C(t, "testdata/uring.c")
}

// uringExchange makes a client send requests to a server by io_uring, and returns both while they run.
func uringExchange(t *testing.T, program, by string) (server, client *speaker) {
	t.Helper()
	server = speak(t, program, by, "server")
	client = speak(t, program, by, "client", server.line(), strconv.Itoa(uringConnections), strconv.Itoa(uringTimes))
	_, err := client.in.Write([]byte{'\n'})
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(uringConnections*uringTimes), client.line())
	return server, client
}

// TestRequestsByUring checks that each request that programs receive and send by io_uring is reported of both sides, as many as they count
// themselves, and that connections are counted whose memory cannot be found.
func TestRequestsByUring(t *testing.T) {
	program := uringProgram(t)
	has := featuresFor(t)
	for _, way := range ways { // both everywhere: by tracepoints other programs run than elsewhere
		if way.has(has) {
			t.Run(way.name, func(t *testing.T) { requestsByUring(t, way, program) })
		}
	}
}

func requestsByUring(t *testing.T, way *way, program string) {
	w := watch(t, requestConfig(), way.change)
	registered := !w.features.trampolines && registersByNodes(t)
	modes := uringWays
	if guest.Running() && testing.Short() {
		modes = []string{"plain", "fixed", "multishot", "linked"} // the others take long on emulated CPUs
	}
	for _, by := range modes {
		before, unseen := w.missed(), w.loss("io_uring_unseen")
		server, client := uringExchange(t, program, by)
		w.settle()
		if by == "fixed" && !registered {
			w.unseenByUring(server, client)
			continue
		}
		for _, end := range []struct {
			of     *speaker
			metric string
		}{{server, "http.server.request.duration"}, {client, "http.client.request.duration"}} {
			h := w.histogram(end.of, end.metric, "http.request.method=GET", "http.response.status_code=200")
			w.equal(uringConnections*uringTimes, int64(h.Count), 2, "%s, %s: %v", by, end.metric, w.Losses())
		}
		require.Equal(t, unseen, w.loss("io_uring_unseen"), by)
		if w.missed() > before {
			continue
		}
		for _, reason := range []string{"request_interrupted", "request_unpaired"} {
			require.Zero(t, w.loss(reason), "%s, %s", by, reason)
		}
	}
}

// unseenByUring checks that both ends of each connection were counted, and no request is reported.
func (w *watching) unseenByUring(server, client *speaker) {
	w.t.Helper()
	require.Empty(w.t, w.points(server, "http.server.request.duration"))
	require.Empty(w.t, w.points(client, "http.client.request.duration"))
	require.Eventually(w.t, func() bool {
		require.NoError(w.t, w.Drain())
		return w.loss("io_uring_unseen") >= 2*uringConnections
	}, time.Minute, 10*time.Millisecond)
	require.EqualValues(w.t, 2*uringConnections, w.loss("io_uring_unseen"))
	require.NotZero(w.t, w.sum(server, "ebpf.network.io"), "bytes are counted")
}

// registersByNodes reports whether the kernel has the table of registered files that is read (Linux 6.13).
func registersByNodes(t *testing.T) bool {
	t.Helper()
	has, err := kernel.NewLoader().HasField("io_file_table", "data")
	require.NoError(t, err)
	return has
}

// TestAnswersByUring checks that policies get each request that a process answers by io_uring.
func TestAnswersByUring(t *testing.T) {
	program := uringProgram(t)
	runEachWay(t, func(t *testing.T, way *way) {
		var server atomic.Int64
		var answers atomic.Uint64
		c := requestConfig()
		c.OnlyAnswered = true
		c.Answered = func(a Answer) {
			if int64(a.Subject.PID) == server.Load() {
				answers.Add(1)
			}
		}
		w := watch(t, c, way.change)
		for _, by := range []string{"plain", "multishot", "sqpoll"} {
			answers.Store(0)
			serves := speak(t, program, by, "server")
			server.Store(int64(serves.PID()))
			client := speak(t, program, by, "client", serves.line(), strconv.Itoa(uringConnections), strconv.Itoa(uringTimes))
			_, err := client.in.Write([]byte{'\n'})
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(uringConnections*uringTimes), client.line())
			w.settle()
			w.equal(uringConnections*uringTimes, int64(answers.Load()), 2, by)
			require.Zero(t, w.loss("io_uring_unseen"))
		}
	})
}

// TestRequestsByUringUnseen checks that connections are counted whose requests cannot be captured, once for each side, and that the reason is
// returned.
func TestRequestsByUringUnseen(t *testing.T) {
	program := uringProgram(t)
	w := watch(t, requestConfig(), func(f *features) { f.trampolines, f.uring = false, false })
	require.ErrorIs(t, w.DegradedUring(), errUring)
	server, client := uringExchange(t, program, "plain")
	w.settle()
	w.unseenByUring(server, client)
}
