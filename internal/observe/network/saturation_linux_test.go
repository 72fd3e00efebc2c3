// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// TestFullBuffer checks that with a full ring buffer the losses are counted, that no request is reported with the time of another, and that
// those that follow are reported again: its reader is blocked during some thousand requests, on four connections.
func TestFullBuffer(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const (
		pause       = 5 * time.Millisecond
		connections = 4
		each        = 500 // while the reader is blocked; one in ten is slow
		after       = 50
		together    = 5 // of these: they fit in the buffer while its reader stands still
	)
	mux := http.NewServeMux()
	answer := func(path string, status int, pause time.Duration) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { time.Sleep(pause); w.WriteHeader(status) })
	}
	answer("/fast", 200, 0)
	answer("/slow", 202, pause)
	answer("/after", 203, pause)
	server := httptest.NewServer(mux)
	defer server.Close()
	clients := make([]*http.Client, connections)
	for i := range clients {
		clients[i] = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	}
	runEachWay(t, func(t *testing.T, by *way) {
		var gate sync.Mutex
		config := requestConfig()
		config.BufferBytes = 64 << 10
		config.Charge = func(work func()) { gate.Lock(); defer gate.Unlock(); work() }
		w := watch(t, config, by.change)
		var mu sync.Mutex
		longest := map[int]time.Duration{}
		ask := func(times int, path func(i int) string) {
			var all sync.WaitGroup
			for _, client := range clients {
				all.Go(func() {
					for i := range times {
						began := time.Now()
						response, err := client.Get(server.URL + path(i))
						if err != nil {
							t.Error(err)
							return
						}
						_, err = io.Copy(io.Discard, response.Body)
						if err != nil || response.Body.Close() != nil {
							t.Errorf("reading a response: %v", err)
							return
						}
						mu.Lock()
						longest[response.StatusCode] = max(longest[response.StatusCode], time.Since(began))
						mu.Unlock()
					}
				})
			}
			all.Wait()
		}
		gate.Lock()
		ask(each, func(i int) string {
			if i%10 == 0 {
				return "/slow"
			}
			return "/fast"
		})
		gate.Unlock()
		w.handed()
		for range after / together {
			ask(together, func(int) string { return "/after" })
			w.handed()
		}
		for _, client := range clients {
			client.CloseIdleConnections()
		}
		w.settle()
		require.Positive(t, w.loss("buffer_full"), "what is lost is counted")
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		for _, side := range []string{"client", "server"} {
			points := w.requestPoints("http." + side + ".request.duration")
			for key, of := range map[string]struct {
				status      int
				least, most uint64
				pause       time.Duration
			}{
				"GET 200": {200, 1, connections * each * 9 / 10, 0}, "GET 202": {202, 0, connections * each / 10, pause},
				"GET 203": {203, connections * (after - 1), connections * after, pause},
			} {
				h := points[key]
				if h == nil {
					require.Zero(t, of.least, "%s: %s", side, key)
					continue
				}
				require.GreaterOrEqual(t, h.Count, of.least, "%s: %s", side, key)
				require.LessOrEqual(t, h.Count, of.most, "%s: %s", side, key)
				require.GreaterOrEqual(t, h.Min, of.pause.Seconds(), "%s: %s", side, key)
				require.LessOrEqual(t, h.Max, longest[of.status].Seconds(), "%s: %s", side, key)
			}
			require.Less(t, points["GET 200"].Count, uint64(connections*each*9/10), "some were lost")
		}
	})
}
