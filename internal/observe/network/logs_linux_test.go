// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// logsOfSelf returns the logs of this process with their attributes.
func logsOfSelf(t testing.TB, all []*model.Logs) (logs []model.Log, attributes []map[string]any) {
	t.Helper()
	for _, of := range all {
		texts := 0
		for _, l := range of.Logs {
			for _, a := range l.Attributes {
				texts += len(a.Value.Text)
			}
		}
		require.True(t, of.Bytes == 0 || of.Bytes >= uint64(texts), "a page has %d bytes, of which texts are %d", of.Bytes, texts)
		if of.Process == nil || of.Process.ID.PID != uint32(os.Getpid()) {
			continue
		}
		for _, l := range of.Logs {
			values := map[string]any{}
			for _, a := range l.Attributes {
				switch a.Value.Type {
				case model.TextAttribute, model.LinesAttribute, model.ListAttribute:
					values[a.Key] = a.Value.Text
				case model.FloatAttribute:
					values[a.Key] = a.Value.Float()
				default:
					values[a.Key] = a.Value.Int
				}
			}
			logs, attributes = append(logs, l), append(attributes, values)
		}
	}
	return logs, attributes
}

// traceOf returns the trace that a test's n-th request carries.
func traceOf(n int) string { return fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", n+1) }

// TestRequestsAreLogged checks that each request is exported once by each side, with what the client knows of it: its trace, path, status,
// duration and peer; that values of its query are not; and that those that took longest come again with the report.
func TestRequestsAreLogged(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const (
		slow = 150 * time.Millisecond
		span = "00f067aa0ba902b7"
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := strconv.Atoi(r.URL.Path[1:]); err == nil {
			w.WriteHeader(status)
			return
		}
		time.Sleep(slow)
	}))
	defer server.Close()
	runEachWay(t, func(t *testing.T, by *way) {
		config := requestConfig()
		config.Journal = requests.JournalConfig{
			Which: requests.AllRequests, Slow: slow, Top: 1, Bytes: 1 << 20, Redact: requests.Redaction{Query: true, Headers: []string{"authorization"}},
		}
		w := watch(t, config, by.change)
		client := &http.Client{Transport: &http.Transport{}}
		asked := []string{"/200", "/404", "/slow", "/503", "/slow"}
		took, traces := map[string]time.Duration{}, []string{}
		for n, path := range asked {
			traces = append(traces, traceOf(n))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path+"?card=c4111", nil)
			require.NoError(t, err)
			request.Header.Set("traceparent", "00-"+traceOf(n)+"-"+span+"-01")
			request.Header.Set("authorization", "Bearer secret")
			request.Header.Set("user-agent", "test")
			began := time.Now()
			response, err := client.Do(request)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			allAsleep() // the server's call has returned, too
			took[traceOf(n)] = time.Since(began)
			require.NoError(t, response.Body.Close())
		}
		client.CloseIdleConnections()
		w.handed()
		require.NoError(t, w.Drain())
		require.Empty(t, logsOnly(t, w.Logs()), "who the peers are is known with the report")
		w.last = w.Report(time.Now())
		_, top := logsOfSelf(t, w.last.Logs)
		all := w.Logs()
		require.Empty(t, w.Logs(), "they are exported once")
		if w.missed() > 0 {
			return // some of the segments were not captured
		}

		logs, values := logsOfSelf(t, all)
		require.Len(t, logs, 2*len(asked))
		address := server.Listener.Addr().(*net.TCPAddr)
		seen := map[string]int{}
		for i, l := range logs {
			trace, of := hex.EncodeToString(l.TraceID[:]), values[i]
			n := slices.Index(traces, trace)
			require.GreaterOrEqual(t, n, 0, trace)
			role := of["ebpf.role"].(string)
			seen[role+" "+trace]++
			require.Equal(t, "ebpf.request", l.Event)
			require.Equal(t, span, hex.EncodeToString(l.SpanID[:]))
			require.True(t, l.Sampled)
			require.WithinDuration(t, time.Now(), l.Time, time.Minute)
			require.Equal(t, asked[n], of["url.path"])
			require.Equal(t, "card=?", of["url.query"])
			require.Equal(t, "test", of["user_agent.original"])
			require.Equal(t, "127.0.0.1", of["server.address"])
			require.EqualValues(t, address.Port, of["server.port"])
			require.Equal(t, "tcp", of["network.transport"])
			require.Equal(t, "127.0.0.1", of["network.peer.address"])
			require.EqualValues(t, os.Getpid(), of["ebpf.peer.pid"], "both ends are of this process")
			duration := of["ebpf.request.duration"].(float64)
			require.LessOrEqual(t, duration, took[trace].Seconds())
			if asked[n] == "/slow" {
				require.GreaterOrEqual(t, duration, slow.Seconds())
				require.EqualValues(t, 200, of["http.response.status_code"])
			} else {
				require.Equal(t, asked[n][1:], fmt.Sprint(of["http.response.status_code"]))
			}
			port, found := of["network.peer.port"]
			require.Equal(t, role == "client", found)
			require.True(t, role != "client" || port == int64(address.Port))
			for key, value := range of {
				require.NotContains(t, fmt.Sprint(value), "secret", key)
				require.NotContains(t, fmt.Sprint(value), "c4111", key)
			}
		}
		require.Len(t, seen, 2*len(asked))

		reasons := map[string]int{}
		for _, of := range top {
			reasons[fmt.Sprint(of["ebpf.role"], " ", of["ebpf.reason"], " ", of["url.path"])]++
		}
		want := map[string]int{"client 4xx /404": 1, "server 4xx /404": 1, "client 5xx /503": 1, "server 5xx /503": 1}
		if took[traceOf(0)] < slow {
			want["client slow /slow"], want["server slow /slow"] = 1, 1
		} else { // the host was so slow that another one may have taken longest
			maps.DeleteFunc(reasons, func(reason string, _ int) bool { return strings.Contains(reason, " slow ") })
		}
		require.Equal(t, want, reasons)
		for _, reason := range []string{"request_logs_full", "buffer_unread"} {
			require.Zero(t, w.loss(reason), reason)
		}
	})
}

// logsOnly returns the logs without their processes.
func logsOnly(t *testing.T, all []*model.Logs) []model.Log {
	t.Helper()
	logs, _ := logsOfSelf(t, all)
	return logs
}
