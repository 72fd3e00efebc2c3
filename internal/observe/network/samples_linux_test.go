// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

const (
	slowSample = 150 * time.Millisecond
	spanOfTest = "00f067aa0ba902b7"
	longBody   = 300_000
)

// sampledServer answers slowly, with a failure, with a compressed body, and with a long one.
func sampledServer(t *testing.T) *httptest.Server {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, `{"says": "what was packed"}`)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(slowSample)
		_, _ = io.WriteString(w, "late")
	})
	mux.HandleFunc("/fast", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "at once") })
	mux.HandleFunc("/fail", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("Content-Type", "text/plain; charset=iso-8859-1")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "kein Ger\xe4t")
	})
	mux.HandleFunc("/packed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(packed.Bytes())
	})
	mux.HandleFunc("/long/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, long(longBody))
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = cleartext()
	server.Config.Protocols.SetHTTP1(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// eachVersion runs a test with clients of HTTP/1 and of HTTP/2.
func eachVersion(t *testing.T, test func(t *testing.T, transport *http.Transport)) {
	for _, version := range []struct {
		name      string
		transport *http.Transport
	}{{"1.1", &http.Transport{}}, {"2", &http.Transport{Protocols: cleartext()}}} {
		t.Run("HTTP "+version.name, func(t *testing.T) { test(t, version.transport) })
		version.transport.CloseIdleConnections()
	}
}

// long returns a text whose every part has its own offset.
func long(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%07d\n", b.Len())
	}
	return b.String()[:n]
}

// sampling returns a configuration with these rules.
func sampling(limit int, rules ...requests.Rule) Config {
	config := requestConfig()
	config.BufferBytes = 8 << 20
	config.Journal = requests.JournalConfig{
		Bytes: 8 << 20, Redact: requests.Redaction{Query: true, Headers: []string{"authorization", "set-cookie"}},
		Samples: requests.SamplesConfig{Rules: rules, PerSecond: 1000, Limit: limit, Bytes: 8 << 20},
	}
	return config
}

// wholeBody exports bodies completely that are no longer than what is captured.
func wholeBody(limit int) requests.BodyRule { return requests.BodyRule{MaxBytes: limit} }

// ask sends a request with a context and a secret, and reads the response to its end.
func ask(t *testing.T, transport *http.Transport, method, url string, n int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("traceparent", "00-"+traceOf(n)+"-"+spanOfTest+"-01")
	request.Header.Set("Authorization", "Bearer secret")
	request.Header.Set("Accept-Encoding", "gzip")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// sampleLog is a log of a sample and its attributes.
type sampleLog struct {
	model.Log
	of    map[string]any
	lists map[string][]string
}

// samples returns the logs of samples of this process, by role, path and the attribute ebpf.sample; calls are in the order of their times.
func (w *watching) samples() map[string][]sampleLog {
	w.t.Helper()
	w.settle()
	all := map[string][]sampleLog{}
	paths := map[string]string{} // by sample
	logs, attributes := logsOfSelf(w.t, w.Logs())
	for i, l := range logs {
		require.Equal(w.t, "ebpf.request.sample", l.Event)
		of, lists := attributes[i], map[string][]string{}
		for _, a := range l.Attributes {
			if a.Value.Type == model.ListAttribute {
				lists[a.Key] = a.Value.List()
			}
			require.False(w.t, strings.Contains(a.Value.Text, "secret") || strings.Contains(a.Value.Text, "c4111"), a.Key)
		}
		id := of["ebpf.sample.id"].(string)
		if path, ok := of["url.path"].(string); ok {
			paths[id] = path
		}
		key := fmt.Sprint(of["ebpf.role"], " ", paths[id], " ", of["ebpf.sample"])
		all[key] = append(all[key], sampleLog{l, of, lists})
	}
	return all
}

// TestSamples checks that the requests that match a rule are exported with their content, decoded and redacted, on both sides, with the calls
// that transferred them.
func TestSamples(t *testing.T) {
	const limit = 16 << 10
	server := sampledServer(t)
	runEachWay(t, func(t *testing.T, by *way) {
		config := sampling(limit,
			requests.Rule{URI: regexp.MustCompile(`^/(slow|fast)$`), MinDuration: slowSample, Response: wholeBody(limit)},
			requests.Rule{On5xx: true, Request: wholeBody(limit), Response: wholeBody(limit)},
			requests.Rule{URI: regexp.MustCompile(`[?&]what=`), Response: requests.BodyRule{MaxBytes: 9}},
		)
		// The reader owns what is kept of messages: it is read where the reader charges its work, in each round.
		var watched atomic.Pointer[watching]
		var left atomic.Int64
		config.Charge = func(work func()) {
			work()
			if w := watched.Load(); w != nil {
				left.Store(int64(w.capture.sink.Contents.Left))
			}
		}
		w := watch(t, config, by.change)
		watched.Store(w)
		eachVersion(t, func(t *testing.T, transport *http.Transport) {
			w.t = t
			var fast time.Duration // of both sides, or more
			for n, path := range []string{"/fast", "/slow", "/absent", "/packed", "/packed?what=c4111"} {
				began := time.Now()
				ask(t, transport, http.MethodGet, server.URL+path, n, "")
				if path == "/fast" {
					allAsleep() // the server's call has returned, too
					fast = time.Since(began)
				}
			}
			ask(t, transport, http.MethodPost, server.URL+"/fail?card=c4111", 5, "card=c4111&cvc=c4111")
			transport.CloseIdleConnections()
			got := w.samples()
			if w.missed() > 0 {
				return // some of the segments were not captured
			}
			for _, role := range []string{"client", "server"} {
				require.NotContains(t, got, role+" /absent request")
				if fast < slowSample {
					require.NotContains(t, got, role+" /fast request")
				}
				for path, n := range map[string]int{"/slow": 1, "/packed": 4, "/fail": 5} {
					for _, what := range []string{"request", "response"} {
						require.Len(t, got[role+" "+path+" "+what], 1, "%s: %s %s", role, path, what)
						l := got[role+" "+path+" "+what][0]
						require.Equal(t, traceOf(n), hex.EncodeToString(l.TraceID[:]))
						require.Equal(t, spanOfTest, hex.EncodeToString(l.SpanID[:]))
						require.EqualValues(t, os.Getpid(), l.of["ebpf.peer.pid"])
						require.Equal(t, path, l.of["url.path"])
						require.Equal(t, transport.Protocols != nil, l.of["network.protocol.version"] == "2")
					}
					request := got[role+" "+path+" request"][0]
					require.Equal(t, []string{"[redacted]"}, request.lists["http.request.header.authorization"])
					require.Equal(t, []string{"gzip"}, request.lists["http.request.header.accept-encoding"])
					sent := transferred(got[role+" "+path+" syscall"], map[string]string{"client": "write", "server": "read"}[role])
					require.EqualValues(t, request.of["http.request.size"], sent, "%s %s", role, path)
					answered := transferred(got[role+" "+path+" syscall"], map[string]string{"client": "read", "server": "write"}[role])
					require.EqualValues(t, request.of["http.response.size"], answered, "%s %s", role, path)
				}
				require.Equal(t, "late", got[role+" /slow response"][0].of["ebpf.body.content"])
				require.GreaterOrEqual(t, got[role+" /slow response"][0].of["ebpf.request.duration"], slowSample.Seconds())
				require.NotContains(t, got[role+" /slow request"][0].of, "ebpf.body.content")

				packed := got[role+" /packed response"][0].of
				require.Equal(t, `{"says": `, packed["ebpf.body.content"])
				require.Equal(t, "gzip", packed["ebpf.body.encoding"])
				require.EqualValues(t, 1, packed["ebpf.body.cut"])
				require.Equal(t, "what=?", packed["url.query"])

				require.Equal(t, "card=?&cvc=?", got[role+" /fail request"][0].of["ebpf.body.content"])
				failed := got[role+" /fail response"][0]
				require.Equal(t, "kein Gerät", failed.of["ebpf.body.content"])
				require.NotContains(t, failed.of, "ebpf.body.cut")
				require.Equal(t, []string{"[redacted]"}, failed.lists["http.response.header.set-cookie"])
				require.EqualValues(t, 503, failed.of["http.response.status_code"])
			}
			for _, reason := range []string{"request_samples_full", "request_samples_limited", "request_content_full"} {
				require.Zero(t, w.loss(reason), reason)
			}
		})
		w.t = t
		if w.missed() == 0 {
			// A connection that ends after the last round has ended with one of the next.
			require.Eventually(t, func() bool {
				w.handed()
				return left.Load() == int64(config.Journal.Samples.Bytes)
			}, time.Minute, time.Millisecond, "nothing is kept of what has ended")
		}
	})
}

// TestPacketsOfCalls checks that each call of a sample has the packets that TCP itself counts, and a round-trip time.
func TestPacketsOfCalls(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, sampling(1000, requests.Rule{URI: regexp.MustCompile("^/packets")}), by.change)
		began := time.Now()
		client, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		server, err := listener.Accept()
		require.NoError(t, err)
		buffer := make([]byte, 1000)
		for _, line := range []string{"GET /packets HTTP/1.1\r\n", "Host: shop\r\n", "\r\n"} {
			_, err = io.WriteString(client, line)
			require.NoError(t, err)
			n, err := server.Read(buffer) // so that each line is a packet of its own
			require.NoError(t, err)
			require.Equal(t, line, string(buffer[:n]))
		}
		_, err = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		require.NoError(t, err)
		_, err = client.Read(buffer)
		require.NoError(t, err)
		info := infoOf(t, client)
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		got := w.samples()
		if w.missed() > 0 || info.Data_segs_out > 3 || info.Data_segs_in > 1 {
			return // some of the segments were not captured, or something was retransmitted
		}
		for side, want := range map[string][]string{"client": {"write", "write", "write", "read"}, "server": {"read", "read", "read", "write"}} {
			var operations []string
			for _, call := range got[side+" /packets syscall"] {
				operations = append(operations, call.of["ebpf.operation"].(string))
				require.EqualValues(t, 1, call.of["ebpf.sample.packets"], "%s: %v", side, call.of)
				require.Positive(t, call.of["ebpf.sample.rtt"])
				require.Less(t, call.of["ebpf.sample.rtt"], time.Since(began).Seconds(), "in s")
			}
			require.Equal(t, want, operations, side)
		}
	})
}

// infoOf returns TCP's information on a connection.
func infoOf(t *testing.T, conn net.Conn) (info *unix.TCPInfo) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
	require.NoError(t, failed)
	return info
}

// TestLongBodies checks that bodies are exported up to the limit of what is captured, however they are transferred, that they are marked as
// cut there, and that they are the beginning; bodies within the limit are whole.
func TestLongBodies(t *testing.T) {
	guest.TakesLong(t)
	server := sampledServer(t)
	for _, limit := range []int{128 << 10, 20_000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			runEachWay(t, func(t *testing.T, by *way) {
				w := watch(t, sampling(limit, requests.Rule{URI: regexp.MustCompile("^/long"), Request: wholeBody(limit), Response: wholeBody(limit)}), by.change)
				within := limit - 1000 // a head has some hundred bytes
				eachVersion(t, func(t *testing.T, transport *http.Transport) {
					w.t = t
					for _, n := range []int{5000, within, longBody} {
						ask(t, transport, http.MethodPut, server.URL+fmt.Sprintf("/long/%d", n), n, long(n))
					}
					transport.CloseIdleConnections()
					got := w.samples()
					if w.missed() > 0 || w.loss("buffer_full") > 0 {
						t.Logf("some of the segments were not seen: others on the host transfer, too, and are observed: %v", w.Losses())
						return
					}
					for _, role := range []string{"client", "server"} {
						for _, n := range []int{5000, within, longBody} {
							key := fmt.Sprintf("%s /long/%d ", role, n)
							require.Len(t, got[key+"request"], 1, "%s: %v", key, w.Losses())
							require.Len(t, got[key+"response"], 1, "%s: %v", key, w.Losses())
							request, response := got[key+"request"][0].of, got[key+"response"][0].of
							require.EqualValues(t, n, request["http.request.body.size"], key)
							requireBeginning(t, request, n, limit, key+"request")
							requireBeginning(t, response, longBody, limit, key+"response")
						}
					}
				})
			})
		})
	}
}

// requireBeginning checks that of a body of n bytes the part within the limit was exported, of which its head takes a part.
func requireBeginning(t *testing.T, of map[string]any, n, limit int, key string) {
	t.Helper()
	text, _ := of["ebpf.body.content"].(string)
	require.True(t, strings.HasPrefix(long(n), text), key)
	if n < limit {
		require.Len(t, text, n, key)
		require.NotContains(t, of, "ebpf.body.cut", key)
		return
	}
	require.Greater(t, len(text), limit-1000, "%s: %v", key, of["ebpf.body.error"])
	require.LessOrEqual(t, len(text), limit, key)
	require.EqualValues(t, 1, of["ebpf.body.cut"], key)
}

// transferred returns how many bytes calls have transferred in a direction.
func transferred(calls []sampleLog, operation string) (sum int64) {
	for _, call := range calls {
		if call.of["ebpf.operation"] == operation {
			sum += call.of["ebpf.sample.bytes"].(int64)
		}
	}
	return sum
}

// TestSpans checks that each request is a span on both sides, of the trace that it carries or of a new one, and that the server's is the child of the
// client's.
func TestSpans(t *testing.T) {
	guest.SameOnEveryKernel(t)
	server := sampledServer(t)
	runEachWay(t, func(t *testing.T, by *way) {
		config := requestConfig()
		config.Journal = requests.JournalConfig{Spans: true, Bytes: 1 << 20, Redact: requests.Redaction{Query: true}}
		w := watch(t, config, by.change)
		began := time.Now()
		for n, path := range []string{"/slow", "/fail?card=c4111"} {
			ask(t, http.DefaultTransport.(*http.Transport), http.MethodGet, server.URL+path, n, "")
		}
		response, err := http.Get(server.URL + "/absent")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		allAsleep() // the servers' calls have returned, too
		took := time.Since(began)
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		w.settle()
		require.Empty(t, w.Logs())
		all := w.Spans()
		require.Empty(t, w.Spans(), "they are exported once")
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		seen := map[string]model.Span{}
		for _, of := range all {
			if of.Process == nil || of.Process.ID.PID != uint32(os.Getpid()) {
				continue
			}
			for _, s := range of.Spans {
				values := map[string]model.AttributeValue{}
				for _, a := range s.Attributes {
					values[a.Key] = a.Value
				}
				key := fmt.Sprint(s.Kind == model.ClientSpan, " ", values["url.path"].Text)
				require.NotContains(t, seen, key)
				seen[key] = s
				require.NotZero(t, s.SpanID)
				require.NotZero(t, s.TraceID)
				require.EqualValues(t, os.Getpid(), values["ebpf.peer.pid"].Int)
				require.WithinRange(t, s.Start, began.Add(-time.Second), began.Add(took))
				if s.Kind == model.ClientSpan {
					require.True(t, strings.HasPrefix(values["url.full"].Text, server.URL+"/"), values["url.full"].Text)
				}
			}
		}
		require.Len(t, seen, 6)
		for n, path := range []string{"/slow", "/fail", "/absent"} {
			client, server := seen["true "+path], seen["false "+path]
			require.Equal(t, "GET "+path, client.Name)
			require.Equal(t, "GET "+path, server.Name)
			require.NotEqual(t, client.SpanID, server.SpanID)
			require.Equal(t, path != "/slow", client.Failed)
			require.Equal(t, path == "/fail", server.Failed)
			require.Equal(t, client.SpanID, server.ParentID, "the server's is the child of the client's")
			require.Equal(t, client.TraceID, server.TraceID)
			require.True(t, server.Remote)
			if path == "/absent" {
				require.Zero(t, client.ParentID)
				continue
			}
			require.Equal(t, traceOf(n), hex.EncodeToString(client.TraceID[:]))
			require.Equal(t, spanOfTest, hex.EncodeToString(client.ParentID[:]))
			require.True(t, client.Sampled)
			require.True(t, server.Sampled)
		}
		slow := seen["false /slow"]
		require.GreaterOrEqual(t, slow.End.Sub(slow.Start), slowSample)
		require.Less(t, slow.End.Sub(slow.Start), took)
		require.Zero(t, w.loss("request_spans_full"))
	})
}
