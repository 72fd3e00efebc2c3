// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// message is a generated one: its place in its direction's bytes, and what should be reported of it.
type message struct {
	begin, end int
	side       l7.Side
}

// conversation is what both ends of a connection say, made by net/http.
type conversation struct {
	bytes    [2][]byte // requests, responses
	opaque   [2][]bool // bytes of bodies of known length, which need not be known
	messages [2][]message
	want     []reported
	marked   bool // each response says whose it is
}

var statusesToTry = []int{200, 200, 200, 201, 204, 206, 301, 304, 400, 404, 429, 500, 503}

// generate makes a conversation of n exchanges. The last response may end with the connection.
func generate(t testing.TB, rnd *rand.Rand, n int, role l7.Role) *conversation {
	c := &conversation{marked: rnd.IntN(2) == 0}
	for i := range n {
		want := reported{Role: role.String(), Version: "1.1"}
		req := c.request(t, rnd, i, &want)
		c.response(t, rnd, req, i == n-1, &want)
		want.ErrorType = errorType(role, want.Status)
		c.want = append(c.want, want)
	}
	return c
}

func errorType(role l7.Role, status int) string {
	if status >= 500 || status >= 400 && role == l7.RoleClient {
		return strconv.Itoa(status)
	}
	return ""
}

// body is a random one: none, of known length, or in chunks.
func body(rnd *rand.Rand) (content []byte, chunked bool) {
	if rnd.IntN(3) == 0 {
		return nil, false
	}
	content = make([]byte, 1+rnd.IntN(3000))
	for i := range content {
		content[i] = "GET / HTTP/1.1\r\n0"[rnd.IntN(17)] // what heads are made of, to mislead
	}
	return content, rnd.IntN(2) == 0
}

// onlyReader hides a reader's length, so that net/http writes chunks, of random sizes.
type onlyReader struct {
	r   io.Reader
	rnd *rand.Rand
}

func (o onlyReader) Read(p []byte) (int, error) { return o.r.Read(p[:1+o.rnd.IntN(min(len(p), 700))]) }

func (c *conversation) request(t testing.TB, rnd *rand.Rand, i int, want *reported) *http.Request {
	methods := []string{"GET", "GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "FROB"}
	if i == 0 {
		methods = methods[:len(methods)-1] // nothing shows that a connection that begins so is HTTP
	}
	want.Original = methods[rnd.IntN(len(methods))]
	want.Method = want.Original
	if want.Original == "PROPFIND" || want.Original == "FROB" {
		want.Method = rfc9110.OtherMethod
	}
	want.Path = fmt.Sprintf("/items/%d%s", i, strings.Repeat("/x", rnd.IntN(40)))
	want.Host = "shop.example:8080"
	want.Target = want.Path
	if rnd.IntN(2) == 0 {
		want.Query = "q=" + strconv.Itoa(rnd.IntN(1000))
		want.Target += "?" + want.Query
	}
	content, chunked := body(rnd)
	if want.Original == "GET" || want.Original == "HEAD" {
		content = nil
	}
	var reader io.Reader
	if content != nil {
		reader = bytes.NewReader(content)
	}
	if chunked && content != nil {
		reader = onlyReader{reader, rnd}
	}
	req, err := http.NewRequest(want.Original, "http://"+want.Host+want.Target, reader)
	require.NoError(t, err)
	req.URL = &url.URL{Scheme: "http", Host: want.Host, Path: want.Path, RawQuery: want.Query}
	want.RequestFields = []string{absent, absent, "test/1"}
	req.Header.Set("User-Agent", "test/1")
	for k := range rnd.IntN(8) {
		req.Header.Set(fmt.Sprintf("X-Noise-%d", k), strings.Repeat("n", rnd.IntN(100)))
	}
	if rnd.IntN(2) == 0 {
		want.RequestFields[0] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		req.Header.Set("Traceparent", want.RequestFields[0])
	}
	var b bytes.Buffer
	require.NoError(t, req.Write(&b))
	want.Request = c.add(0, b.Bytes(), len(content), chunked)
	return req
}

func (c *conversation) response(t testing.TB, rnd *rand.Rand, req *http.Request, last bool, want *reported) {
	if rnd.IntN(6) == 0 {
		c.bytes[1] = append(c.bytes[1], "HTTP/1.1 100 Continue\r\n\r\n"...)
		c.opaque[1] = append(c.opaque[1], make([]bool, len("HTTP/1.1 100 Continue\r\n\r\n"))...)
	}
	content, chunked := body(rnd)
	want.Status = statusesToTry[rnd.IntN(len(statusesToTry))]
	resp := &http.Response{StatusCode: want.Status, ProtoMajor: 1, ProtoMinor: 1, Request: req, Header: http.Header{}}
	want.ResponseFields = []string{absent, absent}
	if c.marked || rnd.IntN(2) == 0 {
		want.ResponseFields[0] = "text/x-of; path=" + want.Path
		resp.Header.Set("Content-Type", want.ResponseFields[0])
	}
	bodiless := req.Method == "HEAD" || want.Status == 204 || want.Status == 304
	if bodiless && req.Method != "HEAD" {
		content, chunked = nil, false // net/http would write one
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	switch {
	case chunked:
		resp.ContentLength, resp.TransferEncoding = -1, []string{"chunked"}
		resp.Body = io.NopCloser(onlyReader{bytes.NewReader(content), rnd})
		if rnd.IntN(3) == 0 {
			resp.Trailer = http.Header{"X-Checksum": {"1234"}}
		}
	case last && !bodiless && rnd.IntN(2) == 0:
		resp.ContentLength, resp.Close = -1, true
		chunked = true // so that it is not taken for a body of known length
		resp.ProtoMinor = 0
	}
	var b bytes.Buffer
	require.NoError(t, resp.Write(&b))
	text := b.String()
	if at := strings.Index(text, "Content-Length: "); at >= 0 && at < strings.Index(text, "\r\n\r\n") {
		want.ResponseFields[1], _, _ = strings.Cut(text[at+len("Content-Length: "):], "\r\n")
	}
	size := len(content)
	if bodiless {
		size, chunked = 0, false
	}
	want.Response = c.add(1, b.Bytes(), size, chunked)
}

// add puts a message to a direction.
func (c *conversation) add(dir int, text []byte, body int, chunked bool) l7.Side {
	side := l7.Side{Known: true, Ended: true, Body: int64(body), Whole: int64(len(text))}
	opaque := make([]bool, len(text))
	for i := range opaque {
		opaque[i] = !chunked && i >= len(text)-body
	}
	begin := len(c.bytes[dir])
	c.messages[dir] = append(c.messages[dir], message{begin: begin, end: begin + len(text), side: side})
	c.bytes[dir] = append(c.bytes[dir], text...)
	c.opaque[dir] = append(c.opaque[dir], opaque...)
	return side
}

// how a conversation is cut and what of it is known.
type how struct {
	role      l7.Role
	pipelined bool
	largest   int  // bytes of a piece
	headsOnly bool // nothing is known of bodies of known length
}

// play feeds the conversation in random pieces and completes what is wanted by the pieces' times.
func (c *conversation) play(rnd *rand.Rand, h how, feed func(l7.Piece)) {
	var at [2]int
	now := int64(1000)
	for at[0] < len(c.bytes[0]) || at[1] < len(c.bytes[1]) {
		dir := rnd.IntN(2)
		n := min(1+rnd.IntN(h.largest), c.sayable(dir, at, h.pipelined)-at[dir])
		if n <= 0 {
			continue
		}
		p := l7.Piece{Direction: h.role.RequestDirection(), Began: now, Ended: now + 1 + rnd.Int64N(50), Length: int64(n)}
		if dir == 1 {
			p.Direction = p.Direction.Other()
		}
		now = p.Ended + rnd.Int64N(3)
		known := n
		for h.headsOnly && known > 0 && c.opaque[dir][at[dir]+known-1] {
			known--
		}
		p.Data = bytes.Clone(c.bytes[dir][at[dir] : at[dir]+known])
		c.note(dir, at[dir], n, &p)
		at[dir] += n
		feed(p)
		for i := range p.Data {
			p.Data[i] = '#' // it is valid until the call returns, no longer
		}
	}
}

// sayable is up to where a direction may speak: a response after its request, a request, unless pipelined, after all responses.
func (c *conversation) sayable(dir int, at [2]int, pipelined bool) int {
	if dir == 0 && pipelined {
		return len(c.bytes[0])
	}
	i := 0
	for i < len(c.messages[0]) && c.messages[1-dir][i].end <= at[1-dir] {
		i++
	}
	if dir == 1 {
		i--
	}
	if i < 0 {
		return 0
	}
	return c.messages[dir][min(i, len(c.messages[dir])-1)].end
}

// note completes the times of the messages that begin or end in a piece.
func (c *conversation) note(dir, at, n int, p *l7.Piece) {
	for i := range c.messages[dir] {
		m := &c.messages[dir][i]
		side := &c.want[i].Request
		if dir == 1 {
			side = &c.want[i].Response
		}
		if at <= m.begin && m.begin < at+n {
			side.First = p.First()
		}
		if at < m.end && m.end <= at+n {
			side.Last = p.Ended
		}
	}
}

func TestWhatNetHTTPWritesIsToldExactly(t *testing.T) {
	for _, role := range []l7.Role{l7.RoleServer, l7.RoleClient} {
		for _, pipelined := range []bool{false, true} {
			for _, headsOnly := range []bool{false, true} {
				for _, largest := range []int{1, 20, 300, 5000, 100000} {
					h := how{role, pipelined, largest, headsOnly}
					t.Run(fmt.Sprintf("%s, pipelined %v, heads only %v, up to %d", role, pipelined, headsOnly, largest), func(t *testing.T) {
						for seed := range uint64(20) {
							requireExact(t, seed, h)
						}
					})
				}
			}
		}
	}
}

func requireExact(t *testing.T, seed uint64, h how) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	c := generate(t, rnd, 1+rnd.IntN(12), h.role)
	l := listen()
	c.play(rnd, h, l.Feed)
	l.Close()
	require.Len(t, l.reported, len(c.want), "seed %d", seed)
	for i := range c.want {
		require.Equal(t, c.want[i], l.reported[i], "seed %d, exchange %d", seed, i)
	}
	require.Equal(t, l7.Stats{Exchanges: uint64(len(c.want))}, l.stats, "seed %d", seed)
}
