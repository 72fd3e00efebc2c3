// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestChunkedResponsesAreReportedWhenTheyEnd checks that chunked responses are reported when they have ended, while their connections stay
// open and carry nothing else: those that a server writes as its buffers fill, and those that one call writes from several buffers.
func TestChunkedResponsesAreReportedWhenTheyEnd(t *testing.T) {
	guest.TakesLong(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/plain/{size}", func(w http.ResponseWriter, r *http.Request) {
		var size int
		_, _ = fmt.Sscan(r.PathValue("size"), &size)
		for range size / 1000 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		}
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		content := make([]byte, 40_000)
		_, _ = rand.NewChaCha8([32]byte{}).Read(content)
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(content)
		_ = z.Close()
	})
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		server := httptest.NewServer(mux)
		defer server.Close()
		want := map[string]int{}
		for _, path := range []string{"/plain/5000", "/plain/10000", "/plain/40000", "/gzip"} {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections() // no further request is sent on it before
			response, err := client.Get(server.URL + path)
			require.NoError(t, err)
			require.Equal(t, []string{"chunked"}, response.TransferEncoding)
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			want["client GET "+path+" 200"], want["server GET "+path+" 200"] = 1, 1
		}
		for _, size := range []int{5000, 50_000, 500_000} {
			path := fmt.Sprintf("/gathered/%d", size)
			newTalk(t).gathers(path, size)
			want["client GET "+path+" 200"], want["server GET "+path+" 200"] = 1, 1
		}
		o.wait(t, w, want)
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		for _, size := range []int{5000, 50_000, 500_000} {
			require.EqualValues(t, size, o.bytesOfBodies(fmt.Sprintf("server GET /gathered/%d 200", size)), "of one chunk the size is known")
		}
	})
}

// TestChunksThatEndBehindAWindow checks that chunked responses are reported when they have ended, if one call writes them and a capture
// window leaves out all but a few of the last bytes.
func TestChunksThatEndBehindAWindow(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		want := map[string]int{}
		for whole := captureBytes - 1; whole < captureBytes+9; whole++ {
			size := whole
			for size > 0 && gathered(size) > whole {
				size--
			}
			path := fmt.Sprintf("/gathered/%d", size)
			newTalk(t).gathers(path, size)
			want["client GET "+path+" 200"], want["server GET "+path+" 200"] = 1, 1
		}
		o.wait(t, w, want)
	})
}

// TestChunksOfWhichBodiesAreWanted checks that chunked responses are reported when they have ended, if bodies leave the kernel up to a limit.
func TestChunksOfWhichBodiesAreWanted(t *testing.T) {
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, by *way) {
		c := sampling(10_000, requests.Rule{Response: wholeBody(10_000)})
		o := overhear(&c)
		w := watch(t, c, by.change)
		want := map[string]int{}
		for _, size := range []int{5000, 50_000, 500_000} {
			path := fmt.Sprintf("/gathered/%d", size)
			newTalk(t).gathers(path, size)
			want["client GET "+path+" 200"], want["server GET "+path+" 200"] = 1, 1
		}
		o.wait(t, w, want)
	})
}

// gathers makes the server answer a request by one call, which gathers the head, a chunk of this size in parts, and the last chunk. The
// connection is closed after the test.
func (c *talk) gathers(path string, size int) {
	c.t.Helper()
	c.t.Cleanup(c.end)
	c.asks("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
	content := bytes.Repeat([]byte("x"), size)
	parts := gather(content)
	written := make(chan error, 1)
	go func() {
		_, err := parts.WriteTo(c.server)
		written <- err
	}()
	_, err := io.ReadFull(c.client, make([]byte, gathered(size)))
	require.NoError(c.t, err)
	require.NoError(c.t, <-written)
}

// gather returns a response with a chunk of this content, in parts, and the last chunk.
func gather(content []byte) net.Buffers {
	third := len(content) / 3
	return net.Buffers{
		[]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), fmt.Appendf(nil, "%x\r\n", len(content)),
		content[:third], {}, content[third:], []byte("\r\n"), []byte("0\r\n\r\n"),
	}
}

// gathered returns the length of the response of gather.
func gathered(size int) (whole int) {
	for _, part := range gather(make([]byte, size)) {
		whole += len(part)
	}
	return whole
}
