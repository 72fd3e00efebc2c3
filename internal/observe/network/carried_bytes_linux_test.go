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

// TestBodiesStayInTheKernel checks that of a body of 2 MB little more than its beginning leaves the kernel, whichever way it goes and however
// its head is sent, and that its request is reported all the same.
func TestBodiesStayInTheKernel(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const body, block = 2 << 20, 32 << 10
	content := strings.Repeat("x", body)
	post := fmt.Sprintf("POST /up HTTP/1.1\r\nHost: shop.example\r\nContent-Length: %d\r\n\r\n", body)
	buffers := strings.Repeat("x", body/16)
	postBuffers := fmt.Sprintf("POST /buffers HTTP/1.1\r\nHost: shop.example\r\nContent-Length: %d\r\n\r\n", len(buffers))
	created := fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n", body)
	chunks := "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		by := func(size int, from func(string), text string) {
			for len(text) > 0 {
				n := min(size, len(text))
				from(text[:n])
				text = text[n:]
			}
		}
		in := func(from func(string), text string) { by(block, from, text) }
		for _, c := range []struct {
			name     string
			exchange func(c *talk)
			want     string
		}{
			{"upload", func(c *talk) { in(c.asks, post+content); c.answers(fine) }, "POST /up 200"},
			{"upload, head apart", func(c *talk) { c.asks(post); in(c.asks, content); c.answers(fine) }, "POST /up 200"},
			{"upload, head in three", func(c *talk) {
				c.asks(post[:20])
				c.asks(post[20:40])
				in(c.asks, post[40:]+content)
				c.answers(fine)
			}, "POST /up 200"},
			{"upload, by buffers", func(c *talk) { by(bufferBytes, c.asks, postBuffers+buffers); c.answers(fine) }, "POST /buffers 200"},
			{"upload, by buffers, head cut", func(c *talk) {
				end := len(postBuffers) - 2
				c.asks(postBuffers[:end])
				by(bufferBytes, c.asks, postBuffers[end:]+buffers)
				c.answers(fine)
			}, "POST /buffers 200"},
			{"download", func(c *talk) { c.asks("GET /down HTTP/1.1\r\n\r\n"); in(c.answers, created+content) }, "GET /down 201"},
			{"download, head apart", func(c *talk) { c.asks("GET /down HTTP/1.1\r\n\r\n"); c.answers(created); in(c.answers, content) }, "GET /down 201"},
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
			requests, carried, segments := o.take()
			t.Logf("%-22s %6d bytes in %3d segments, at both ends together", c.name, carried, segments)
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
			require.Equal(t, bytes, o.bytesOfBodies(key), key)
		}
	})
}

// TestHeadsInManyBuffers checks that a head that one call has gathered from hundreds of buffers is captured completely, from its first
// line to the last, which has the length of the body.
func TestHeadsInManyBuffers(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		const body = 7
		want := map[string]int{}
		var reported []string
		for _, fields := range []int{5, 40, 250} { // of four buffers each
			path := fmt.Sprintf("/fields/%d", fields)
			segments := net.Buffers{[]byte("POST "), []byte(path), []byte(" HTTP/1.1\r\n")}
			size := len("POST " + path + " HTTP/1.1\r\n")
			add := func(texts ...string) {
				for _, text := range texts {
					segments = append(segments, []byte(text))
					size += len(text)
				}
			}
			for i := range fields {
				add(fmt.Sprintf("X-%d", i), ": ", "y", "\r\n")
			}
			add("Content-Length", ": ", fmt.Sprint(body), "\r\n\r\n")
			talk := newTalk(t)
			_, err := segments.WriteTo(talk.client)
			require.NoError(t, err)
			_, err = io.ReadFull(talk.server, make([]byte, size))
			require.NoError(t, err)
			talk.asks(strings.Repeat("b", body))
			talk.answers(fine)
			talk.end()
			for _, role := range []string{"client", "server"} {
				key := role + " POST " + path + " 200"
				want[key], reported = 1, append(reported, key)
			}
		}
		o.wait(t, w, want)
		if w.missed() == 0 {
			for _, key := range reported {
				require.EqualValues(t, body, o.bytesOfBodies(key), key)
			}
		}
	})
}
