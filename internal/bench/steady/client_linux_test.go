// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

// latePause is how late some answers are.
const latePause = 30 * time.Millisecond

// TestAsksAtItsRate checks that the server has counted what the client says, and that the time of a late answer counts.
func TestAsksAtItsRate(t *testing.T) {
	asksAtItsRate(t, func(*testing.T, workload.Asked) {})
}

// TestMeasureAsksAtItsRate checks that an answer that is late delays no other connection.
func TestMeasureAsksAtItsRate(t *testing.T) {
	asksAtItsRate(t, func(t *testing.T, got workload.Asked) { require.Less(t, got.Took.P50, latePause) })
}

func asksAtItsRate(t *testing.T, judge func(*testing.T, workload.Asked)) {
	t.Helper()
	const pause, rate = latePause, 500
	for name, start := range map[string]func(http.Handler) *httptest.Server{"plain": httptest.NewServer, "tls": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			var asked, slow atomic.Int64
			server := start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1)%10 == 0 {
					slow.Add(1)
					time.Sleep(pause)
				}
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			c := client{rate: rate, connections: 16, length: time.Second}
			require.NoError(t, c.to(server.URL+"/x"))
			got, err := c.run()
			require.NoError(t, err)
			require.Empty(t, got.Why)
			require.EqualValues(t, rate, got.Answered)
			require.EqualValues(t, rate, asked.Load())
			require.Zero(t, got.Failed)
			require.GreaterOrEqual(t, got.Elapsed, time.Second-time.Second/rate)
			require.GreaterOrEqual(t, got.Took.P99, pause)
			judge(t, got)
		})
	}
}

// queuePause is what an answer takes where requests queue.
const queuePause = 10 * time.Millisecond

// TestOneConnectionQueues checks that requests that find no free connection are answered.
func TestOneConnectionQueues(t *testing.T) {
	require.GreaterOrEqual(t, oneConnectionQueues(t).Took.P50, queuePause)
}

// TestMeasureOneConnectionQueues checks that they are recorded with the time that they waited.
func TestMeasureOneConnectionQueues(t *testing.T) {
	require.GreaterOrEqual(t, oneConnectionQueues(t).Took.P50, 20*queuePause, "the 25th has waited for 24 others, and was due after 25 ms")
}

// oneConnectionQueues asks ten times as often as can be answered.
func oneConnectionQueues(t *testing.T) workload.Asked {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(queuePause)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	c := client{rate: 1000, connections: 1, length: 50 * time.Millisecond}
	require.NoError(t, c.to(server.URL))
	got, err := c.run()
	require.NoError(t, err)
	require.EqualValues(t, 50, got.Answered)
	return got
}

// TestAsFastAsAnswered checks that each connection sends the next request at once, and that recorded durations include no waiting.
func TestAsFastAsAnswered(t *testing.T) {
	const pause, connections = 20 * time.Millisecond, 4
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		time.Sleep(pause)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	c := client{connections: connections, length: 10 * pause}
	require.NoError(t, c.to(server.URL))
	var got workload.Asked
	for began := time.Now(); got.Answered <= connections; { // a machine that stands still has no time for more
		require.Less(t, time.Since(began), time.Minute)
		asked.Store(0)
		var err error
		got, err = c.run()
		require.NoError(t, err)
		require.EqualValues(t, asked.Load(), got.Answered)
		require.LessOrEqual(t, got.Answered, uint64(10*connections))
	}
	require.GreaterOrEqual(t, got.Took.P50, pause)
}

// TestFailuresAreCounted checks that what is no answer of status 200 with a length counts as failed, with the reason.
func TestFailuresAreCounted(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c := client{rate: 100, connections: 2, length: 100 * time.Millisecond}
	require.NoError(t, c.to(server.URL))
	got, err := c.run()
	require.NoError(t, err)
	require.EqualValues(t, 10, got.Failed)
	require.Zero(t, got.Answered)
	require.Contains(t, got.Why, "HTTP/1.1 404")
	require.ErrorContains(t, c.to("http://127.0.0.1/"), "with a port")
	require.ErrorContains(t, run([]string{"listen"}), "ask and serve are allowed")
}
