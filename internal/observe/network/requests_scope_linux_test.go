// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// TestRequestsLeaveTheScope checks that requests of a process are no longer reported once it has left the scope, that its scope is not asked
// for again and again meanwhile, and that they start anew when it comes back.
func TestRequestsLeaveTheScope(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const served = "http.server.request.duration"
	runEachWay(t, func(t *testing.T, by *way) {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer server.Close()
		w := watch(t, requestConfig(), by.change)
		host, self := w.table.host.(*observetest.Host), uint32(os.Getpid())
		ask := func(times int) {
			for range times {
				get(t, server.URL)
			}
			w.settle()
		}
		ask(3)
		require.NotEmpty(t, w.requestPoints(served))

		host.Everybody = false
		for key := range host.Subjects {
			if key.PID == self {
				delete(host.Subjects, key)
			}
		}
		require.NoError(t, w.tracker.Decide(self, lifecycle.ScopeNone))
		w.report()
		require.Empty(t, w.requestPoints(served))
		host.Asked = nil
		for range 3 {
			require.NoError(t, w.Drain())
		}
		for _, asked := range host.Asked {
			require.NotEqual(t, self, asked.PID, "it is known to be out of scope")
		}

		host.Everybody = true
		require.NoError(t, w.tracker.Decide(self, lifecycle.ScopeNetwork))
		w.report()
		ask(2)
		w.alike(map[string]uint64{"GET 200": 2}, counts(w.requestPoints(served)), "server")
	})
}

func get(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}
