// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// burst is a sequence of pipelined requests and all of their responses; want has each by method, path and status.
type burst struct {
	requests, responses string
	want                map[string]int
	bodies              int64
}

func (b *burst) add(method, path string, status int, request, response string) {
	b.requests += request
	b.responses += response
	b.want[fmt.Sprintf("%s %s %d", method, path, status)]++
}

const responseHead = "Server: test\r\nDate: Wed, 25 Nov 2026 13:00:00 GMT\r\nCache-Control: no-store\r\n"

// inChunks returns a body in chunks of this size.
func inChunks(body string, size int) string {
	var text strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&text, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return text.String() + "0\r\n\r\n"
}

// newBurst returns n requests to paths below a name, with bodies of so many bytes in both directions, of all kinds of messages that delimit
// themselves.
func newBurst(name string, n, body int) *burst {
	b := &burst{want: map[string]int{}}
	content := strings.Repeat("b", body)
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", body)
	for i := range n {
		path := fmt.Sprintf("/%s/%d", name, i)
		get := func(method string) string { return method + " " + path + " HTTP/1.1\r\nHost: a\r\nCookie: c=1\r\n\r\n" }
		switch i % 6 {
		case 0, 1:
			b.add("GET", path, 200, get("GET"), "HTTP/1.1 200 OK\r\n"+responseHead+length+content)
			b.bodies += int64(body)
		case 2:
			post := "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + length + content
			b.add("POST", path, 201, post, "HTTP/1.1 201 Created\r\n"+responseHead+"content-length: 2\r\n\r\nok")
			b.bodies += int64(body) + 2
		case 3:
			b.add("HEAD", path, 200, get("HEAD"), "HTTP/1.1 200 OK\r\n"+responseHead+length)
		case 4:
			b.add("GET", path, 304, get("GET"), "HTTP/1.1 304 Not Modified\r\n"+responseHead+length)
		case 5:
			b.add("GET", path, 200, get("GET"), "HTTP/1.1 200 OK\r\n"+responseHead+"Transfer-Encoding: chunked\r\n\r\n"+inChunks(content, max(body/2, 1)))
			b.bodies += int64(body)
		}
	}
	return b
}

// readBy reads so many bytes by calls that have this much memory.
func readBy(t *testing.T, from net.Conn, bytes, size int) {
	t.Helper()
	memory := make([]byte, size)
	for bytes > 0 {
		n, err := io.ReadFull(from, memory[:min(size, bytes)])
		require.NoError(t, err)
		bytes -= n
	}
}

// TestPipelinedMessagesOfOneTransfer checks that each of many pipelined requests is exported with its own response and the sizes of both, if
// one call writes or reads many messages, wherever in them calls end.
func TestPipelinedMessagesOfOneTransfer(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const requests, bursts = 60, 2
	overhearUntilSeen(t, func(t *testing.T, w *watching, o *overheard) bool {
		for _, body := range []int{3, 700, 5000} {
			for _, size := range []int{1 << 20, 64 << 10, 16 << 10, 4096, 1024} {
				c := newTalk(t)
				var bodies int64
				want := map[string]int{}
				for range bursts {
					b := newBurst(fmt.Sprintf("%d/%d", body, size), requests, body)
					for _, way := range []struct {
						from, to net.Conn
						text     string
					}{{c.client, c.server, b.requests}, {c.server, c.client, b.responses}} {
						go func() { _, _ = io.WriteString(way.from, way.text) }()
						readBy(t, way.to, len(way.text), size)
					}
					for key, n := range b.want {
						want["client "+key] += n
						want["server "+key] += n
					}
					bodies += 2 * b.bodies
				}
				c.end()
				o.wait(t, w, want)
				if w.missed() > 0 {
					return false
				}
				var got int64
				for key := range want {
					got += o.bytesOfBodies(key)
				}
				require.Equal(t, bodies, got, "bodies of %d bytes, read by %d", body, size)
			}
		}
		for _, reason := range []string{"request_cut", "request_unpaired", "request_interrupted"} {
			require.Zero(t, w.loss(reason), reason)
		}
		return true
	})
}
