// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"

	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// TestBodiesStayInTheKernel holds that of a body of 2 MB little more than its beginning leaves the kernel, whichever way it goes and
// however its head is sent, and that its request is told all the same.
func TestBodiesStayInTheKernel(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const body, block = 2 << 20, 32 << 10
	content := strings.Repeat("x", body)
	post := fmt.Sprintf("POST /up HTTP/1.1\r\nHost: shop.example\r\nContent-Length: %d\r\n\r\n", body)
	created := fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n", body)
	chunks := "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		// in has one end say something in blocks.
		in := func(c *talk, from func(string), text string) {
			for len(text) > 0 {
				n := min(block, len(text))
				from(text[:n])
				text = text[n:]
			}
		}
		for _, c := range []struct {
			name     string
			exchange func(c *talk)
			want     string
		}{
			{"upload", func(c *talk) { in(c, c.asks, post+content); c.answers(fine) }, "POST /up 200"},
			{"upload, head apart", func(c *talk) { c.asks(post); in(c, c.asks, content); c.answers(fine) }, "POST /up 200"},
			{"upload, head in three", func(c *talk) {
				c.asks(post[:20])
				c.asks(post[20:40])
				in(c, c.asks, post[40:]+content)
				c.answers(fine)
			}, "POST /up 200"},
			{"download", func(c *talk) { c.asks("GET /down HTTP/1.1\r\n\r\n"); in(c, c.answers, created+content) }, "GET /down 201"},
			{"download, head apart", func(c *talk) { c.asks("GET /down HTTP/1.1\r\n\r\n"); c.answers(created); in(c, c.answers, content) }, "GET /down 201"},
			{"download, in chunks", func(c *talk) {
				c.asks("GET /down HTTP/1.1\r\n\r\n")
				c.answers(chunks)
				for range body / block {
					c.answers(fmt.Sprintf("%x\r\n", block) + content[:block] + "\r\n")
				}
				c.answers("0\r\n\r\n")
			}, "GET /down 201"},
		} {
			talk := newTalk(t)
			c.exchange(talk)
			talk.end()
			w.handed()
			requests, carried, pieces := o.take()
			t.Logf("%-22s %6d bytes in %3d pieces, at both ends together", c.name, carried, pieces)
			if w.missed() > 0 {
				continue
			}
			require.Equal(t, map[string]int{"client " + c.want: 1, "server " + c.want: 1}, requests, c.name)
			require.LessOrEqual(t, carried, 2*(3*captureBytes+body/(block/2)*32+1024), c.name)
		}
		if w.missed() > 0 {
			return
		}
		for key, bytes := range map[string]int64{"client POST /up 200": 3 * body, "server POST /up 200": 3 * body, "client GET /down 201": 3 * body, "server GET /down 201": 3 * body} {
			require.Equal(t, bytes, o.bodies[key], key)
		}
	})
}
