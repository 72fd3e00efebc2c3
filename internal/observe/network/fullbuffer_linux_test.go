// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// bufferBytes is the size of the buffers of Go's net/http for reads and writes, as of many programs.
const bufferBytes = 4096

// headOf returns the head of a request of this length, of fields that each fill a part of a buffer. The field with the length of the body is
// last.
func headOf(method, path string, size, body int) string {
	const name, most = "X: ", 480
	head, last := method+" "+path+" HTTP/1.1\r\nHost: a\r\n", "\r\n"
	if body > 0 {
		last = fmt.Sprintf("Content-Length: %d\r\n\r\n", body)
	}
	for left := size - len(head) - len(last); left > 0; left = size - len(head) - len(last) {
		if left > 2*most {
			left = most
		}
		head += name + strings.Repeat("x", left-len(name)-len("\r\n")) + "\r\n"
	}
	return head + last
}

// talkInBuffers sends each batch of requests on one connection by buffers, the next one after all responses.
func talkInBuffers(t *testing.T, conn net.Conn, batches [][]string) {
	t.Helper()
	out, in := bufio.NewWriterSize(conn, bufferBytes), bufio.NewReaderSize(conn, bufferBytes)
	for _, requests := range batches {
		for _, request := range requests {
			_, err := out.WriteString(request)
			require.NoError(t, err)
		}
		require.NoError(t, out.Flush())
		for range requests {
			response, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, response.StatusCode)
		}
	}
	require.NoError(t, conn.Close())
}

// inBuffers are requests that are sent so, and what must be reported of each by method, path and status: how often, and how many bytes of
// bodies.
type inBuffers struct {
	batches [][]string
	times   map[string]int
	bodies  map[string]int
}

// request adds a request whose head has this length.
func (b *inBuffers) request(method, path string, head, body int) string {
	key := method + " " + path + " 200"
	b.times[key]++
	b.bodies[key] += body
	return headOf(method, path, head, body) + strings.Repeat("b", body)
}

// longHeads returns sequential requests whose heads fill buffers, or nearly so.
func longHeads() *inBuffers {
	const times, body = 3, 7
	b := &inBuffers{nil, map[string]int{}, map[string]int{}}
	for _, size := range []int{4094, 4095, 4096, 4097, 5000, 8190, 8191, 8192, 8193, 10_000, 30_000} {
		for range times {
			b.batches = append(b.batches, []string{b.request("POST", fmt.Sprintf("/head/%d", size), size, body)})
		}
	}
	return b
}

// pipelined returns requests with heads and bodies of these sizes, so many of them sent without waiting for responses.
func pipelined(head, body, requests int) *inBuffers {
	const times = 3
	b := &inBuffers{nil, map[string]int{}, map[string]int{}}
	for batch := range times {
		var all []string
		for i := range requests {
			all = append(all, b.request("PUT", fmt.Sprintf("/%d/%d/%d/%d/%d", head, body, requests, batch, i), head, body))
		}
		b.batches = append(b.batches, all)
	}
	return b
}

// fillsBuffers returns all sequences of requests.
func fillsBuffers() []*inBuffers {
	all := []*inBuffers{longHeads()}
	for _, p := range []struct{ size, requests int }{{100, 60}, {256, 16}, {256, 32}, {512, 24}, {1000, 60}, {3000, 30}, {4096, 6}} {
		all = append(all, pipelined(p.size, 0, p.requests))
	}
	return all
}

// requireReported checks that all requests were reported by these roles, each with so many bytes of a response's body.
func (b *inBuffers) requireReported(t *testing.T, w *watching, o *overheard, response int, roles ...string) {
	t.Helper()
	want := map[string]int{}
	for key, n := range b.times {
		for _, role := range roles {
			want[role+" "+key] = n
		}
	}
	o.wait(t, w, want)
	if w.missed() > 0 {
		return // some of the calls were not captured
	}
	for key, n := range b.times {
		for _, role := range roles {
			require.EqualValues(t, b.bodies[key]+n*response, o.bytesOfBodies(role+" "+key), "%s %s: bytes of bodies", role, key)
		}
	}
	for _, reason := range []string{"request_cut", "request_unpaired", "request_interrupted"} {
		require.Zero(t, w.loss(reason), reason)
	}
}

// TestTransfersThatFillABuffer checks that requests are reported, each with its response and the sizes of both, if programs read and write
// them by buffers of 4,096 bytes. The server's own count is the reference.
func TestTransfersThatFillABuffer(t *testing.T) {
	guest.TakesLong(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		counted := map[string]int{} // on sequential connections
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			counted[r.Method+" "+r.URL.Path+" 200"]++
			_, _ = io.WriteString(w, "fine")
		}))
		defer server.Close()
		for _, said := range fillsBuffers() {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			talkInBuffers(t, conn, said.batches)
			require.Equal(t, said.times, counted)
			clear(counted)
			said.requireReported(t, w, o, len("fine"), "client", "server")
		}
	})
}

// TestPipelinedBodiesThatFillABuffer checks that pipelined requests with bodies that end anywhere in transfers are reported with the sizes of
// both messages.
func TestPipelinedBodiesThatFillABuffer(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		for _, body := range []int{10, 200, 1000} {
			said := pipelined(300, body, 30)
			c := newTalk(t)
			for _, requests := range said.batches {
				text := strings.Join(requests, "")
				for len(text) > 0 {
					n := min(len(text), bufferBytes)
					c.asks(text[:n])
					text = text[n:]
				}
				c.answers(strings.Repeat(fine, len(requests)))
			}
			c.end()
			said.requireReported(t, w, o, 0, "client", "server")
		}
	})
}

// TestTransfersThroughTLSThatFillABuffer checks that requests through TLS that fill buffers are reported by the server with the sizes of both
// messages.
func TestTransfersThroughTLSThatFillABuffer(t *testing.T) {
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, way *way) {
		cert, key := certificate(t)
		server := speak(t, testbin.Go(t, "testdata/gotls"), "server", cert, key)
		config, scope := tlsConfig(t)
		o := overhearOf(&config, uint32(server.PID()))
		w := watch(t, config, way.change)
		w.attachedTo(scope, goFunctions, server)
		port := server.line()
		for _, said := range []*inBuffers{longHeads(), pipelined(400, 0, 60)} {
			conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
			require.NoError(t, err)
			talkInBuffers(t, conn, said.batches)
			said.requireReported(t, w, o, bodyBytes, "server")
		}
	})
}
