// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// TestAfterHostileMessages checks that what is made to harm who reads it takes little memory, also where contents are kept, and that the
// next request on the connection is reported with its own response.
func TestAfterHostileMessages(t *testing.T) {
	const (
		gigabyte = 1 << 30
		part     = 1 << 20
		refused  = writes("HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad")
		chunked  = "POST /bad HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	)
	begins := strings.Repeat("b", 4000)
	endless := func(first, more string) (s script) {
		s = append(s, reads(first))
		for range 2 * l7.DefaultLimits().Head / int64(len(more)) {
			s = append(s, reads(more))
		}
		return append(s, refused)
	}
	body := func(whole bool) (s script) {
		for range gigabyte / part {
			if whole {
				s = append(s, cutRead{begins, int64(part - len(begins))})
			} else {
				s = append(s, cutWrite{begins, int64(part - len(begins))})
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		bad    script
		status int
		sizes  [2]int64 // of the bodies
	}{
		"a body of 1 GB": {
			append(append(script{reads("POST /bad HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n")}, body(true)...), refused), 400, [2]int64{gigabyte, 3},
		},
		"a response of 1 GB": {
			append(script{reads("GET /bad HTTP/1.1\r\n\r\n"), writes("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")}, body(false)...),
			200, [2]int64{0, gigabyte},
		},
		"1 GB that is never sent": {
			script{reads("POST /bad HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1073741824\r\n\r\n"), refused}, 400, [2]int64{0, 3},
		},
		"a response of 1 GB without a body": {
			script{reads("HEAD /bad HTTP/1.1\r\n\r\n"), writes("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")}, 200, [2]int64{0, 0},
		},
		"a length beyond all numbers": {
			script{reads("POST /bad HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\nabc"), refused}, 400, [2]int64{l7.Unknown, 3},
		},
		"a negative length": {script{reads("POST /bad HTTP/1.1\r\nContent-Length: -1\r\n\r\nabc"), refused}, 400, [2]int64{l7.Unknown, 3}},
		"two lengths":       {script{reads("POST /bad HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"), refused}, 400, [2]int64{l7.Unknown, 3}},
		"a chunk beyond all numbers": {
			script{reads(chunked + "ffffffffffffffffffffffff\r\nabc"), refused}, 400, [2]int64{l7.Unknown, 3},
		},
		"a chunk's line without end": {endless(chunked+"3;", begins), 400, [2]int64{l7.Unknown, 3}},
		"trailers without end":       {endless(chunked+"0\r\n", "X-Noise: "+begins+"\r\n"), 400, [2]int64{l7.Unknown, 3}},
		"a trailer without end":      {endless(chunked+"0\r\nX-Noise: ", begins), 400, [2]int64{l7.Unknown, 3}},
		"a head without end":         {endless("GET /bad HTTP/1.1\r\n", "X-Noise: "+begins+"\r\n"), 400, [2]int64{l7.Unknown, 3}},
		"a line without end":         {endless("GET /bad HTTP/1.1\r\nTraceparent: ", begins), 400, [2]int64{l7.Unknown, 3}},
		"a fold without end":         {endless("GET /bad HTTP/1.1\r\nTraceparent: a\r\n", " "+begins+"\r\n"), 400, [2]int64{l7.Unknown, 3}},
	} {
		for _, keeps := range []bool{false, true} {
			l := listen()
			contents := &l7.Contents{Wanted: wantAll, Body: 16 << 10, Head: 8 << 10, Calls: 64, Left: room}
			if keeps {
				l.sink.Contents = contents
			}
			for _, step := range c.bad {
				l.play(t, script{step}, false)
				require.Less(t, l.Held(), 64<<10, name)
			}
			l.play(t, script{reads("GET /next HTTP/1.1\r\n\r\n"), writes("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")}, false)
			l.Close()
			require.Len(t, l.reported, 2, name)
			require.Equal(t, []any{"/bad", c.status}, []any{l.reported[0].Target, l.reported[0].Status}, name)
			require.Equal(t, c.sizes, [2]int64{l.reported[0].Request.Body, l.reported[0].Response.Body}, name)
			require.Equal(t, []any{"GET", "/next", 201, int64(0), int64(2), l7.Complete}, brief(l.reported[1]), name)
			require.Equal(t, room, contents.Left, name)
		}
	}
}
