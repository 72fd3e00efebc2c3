// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"
	xhpack "golang.org/x/net/http2/hpack"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// transfer is what the client of a conversation wrote (0) or read (1) at once.
type transfer struct {
	dir  int
	data []byte
}

// transfers are what passed until now; clients may go on while they are looked at.
type transfers struct {
	mu   sync.Mutex
	list []transfer
}

func (l *transfers) note(dir int, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, transfer{dir, bytes.Clone(data)})
}

func (l *transfers) untilNow() []transfer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// tap stands between the client and its connection and notes what passes.
type tap struct {
	net.Conn
	*transfers
}

func (c tap) Write(p []byte) (int, error) {
	c.note(0, p)
	return c.Conn.Write(p)
}

func (c tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.note(1, p[:n])
	}
	return n, err
}

// conversation is what a client and a server of golang.org/x/net said to each other, and what the client knows of it.
type conversation struct {
	log  []transfer
	want map[string]reported // by path: what the client did and got
}

// converse makes requests with many bodies, fields and settings, some of them at the same time.
func converse(t testing.TB, rnd *rand.Rand, requests, together int) *conversation {
	c := &conversation{want: map[string]reported{}}
	var passed transfers
	clientEnd, serverEnd := loopback(t)
	served := make(chan struct{})
	server := &xhttp2.Server{MaxReadFrameSize: uint32(1<<14 + rnd.IntN(1<<16)), MaxDecoderHeaderTableSize: uint32(1+rnd.IntN(3)) << 12}
	go func() {
		defer close(served)
		server.ServeConn(serverEnd, &xhttp2.ServeConnOpts{Handler: http.HandlerFunc(handle)})
	}()
	transport := &xhttp2.Transport{AllowHTTP: true, MaxDecoderHeaderTableSize: uint32(1+rnd.IntN(3)) << 12, DisableCompression: true}
	conn, err := transport.NewClientConn(tap{clientEnd, &passed})
	require.NoError(t, err)
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, together)
	for i := range requests {
		req, want := request(t, rnd, i)
		slots <- struct{}{}
		running.Add(1)
		go func() {
			defer running.Done()
			respond(t, conn, req, &want)
			mu.Lock()
			c.want[want.Path] = want
			mu.Unlock()
			<-slots
		}()
	}
	running.Wait()
	require.NoError(t, conn.Close())
	<-served
	c.log = passed.untilNow()
	return c
}

func loopback(t testing.TB) (client, server net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	client, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // mostly closed already
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// handle answers as the request's X-Answer says: status, bytes of the body, what else.
func handle(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	var status, size int
	var what string
	if _, err := fmt.Sscan(r.Header.Get("X-Answer"), &status, &size, &what); err != nil {
		panic(err)
	}
	w.Header().Set("X-Of", r.URL.Path)
	w.Header().Set("X-Received", strconv.FormatInt(n, 10))
	switch what {
	case "informs":
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	case "trails":
		w.Header().Set("Trailer", "X-Sum")
	case "waits":
		<-r.Context().Done()
		return
	case "breaks":
		w.WriteHeader(status)
		_, _ = w.Write(make([]byte, size))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	for size > 0 {
		n := min(size, 1+size/2)
		_, _ = w.Write(bytes.Repeat([]byte{0, 0, 8, 0}, 1+n/4)[:n])
		size -= n
		if what == "flushes" {
			w.(http.Flusher).Flush()
		}
	}
	if what == "trails" {
		w.Header().Set("X-Sum", "1")
	}
}

// request makes a random one, and what is to be reported of it as far as that is known now.
func request(t testing.TB, rnd *rand.Rand, i int) (*http.Request, reported) {
	method := []string{"GET", "GET", "POST", "PUT", "HEAD", "DELETE", "PROPFIND"}[rnd.IntN(7)]
	want := reported{Method: method, Path: fmt.Sprintf("/items/%d%s", i, strings.Repeat("/x", rnd.IntN(40))), Version: "2", Scheme: "http", Host: "shop.example:8080"}
	want.Target = want.Path
	if rnd.IntN(2) == 0 {
		want.Query = "q=" + strconv.Itoa(rnd.IntN(1000))
		want.Target += "?" + want.Query
	}
	if method == "PROPFIND" {
		want.Method, want.Original = rfc9110.OtherMethod, method
	}
	var body io.Reader
	if method == "POST" || method == "PUT" {
		want.Request.Body = int64(rnd.IntN(40000))
		body = io.LimitReader(zeros{}, want.Request.Body)
	}
	ctx := t.Context()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+want.Host+want.Target, body)
	require.NoError(t, err)
	answer := []string{"plain", "plain", "flushes", "informs", "trails", "waits", "breaks"}[rnd.IntN(7)]
	status := []int{200, 200, 200, 201, 204, 301, 404, 429, 500, 503}[rnd.IntN(10)]
	size := rnd.IntN(3000)
	if rnd.IntN(8) == 0 {
		size = rnd.IntN(200000)
	}
	if status == 204 || method == "HEAD" {
		size = 0
	}
	req.Header.Set("X-Answer", fmt.Sprint(status, size, " ", answer))
	want.RequestFields = []string{absent, absent, fmt.Sprint("request ", i)}
	req.Header.Set("X-Request", want.RequestFields[2])
	if rnd.IntN(2) == 0 {
		want.RequestFields[0] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		req.Header.Set("Traceparent", want.RequestFields[0])
	}
	if rnd.IntN(2) == 0 {
		want.RequestFields[1] = "a=1; b=2"
		req.Header.Set("Cookie", "a=1; b=2") // sent as two fields
	}
	for k := range rnd.IntN(8) {
		req.Header.Set(fmt.Sprintf("X-Noise-%d", k), strings.Repeat("n", rnd.IntN(100)))
	}
	return req, want
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// respond makes the request and completes what is wanted by what the client got.
func respond(t testing.TB, conn *xhttp2.ClientConn, req *http.Request, want *reported) {
	waits := strings.HasSuffix(req.Header.Get("X-Answer"), "waits")
	if waits {
		ctx, cancel := context.WithTimeout(req.Context(), 10*time.Millisecond)
		defer cancel()
		req = req.WithContext(ctx)
	}
	resp, err := conn.RoundTrip(req)
	if waits {
		want.Outcome, want.ErrorType = l7.Aborted, "aborted"
		want.Request.Body = l7.Unknown // who knows how much of it was sent
		return
	}
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close() // of what is read to its end
	if broke := new(xhttp2.StreamError); errors.As(err, broke) {
		want.Outcome, want.ErrorType = l7.Aborted, "aborted"
	} else {
		require.NoError(t, err)
	}
	want.Status, want.Response.Body = resp.StatusCode, n
	want.ResponseFields = []string{absent, absent}
	for i, name := range responseFields {
		if values := resp.Header.Values(name); values != nil {
			want.ResponseFields[i] = strings.Join(values, ", ")
		}
	}
}

// extent is where a message lies in the bytes of its direction.
type extent struct {
	begin, end int
	whole      int64 // bytes of its frames
	ended      bool
}

// extents finds the messages of a direction with the framer of golang.org/x/net, by stream; the path of each stream; and which were reset.
func extents(t testing.TB, data []byte) (of map[uint32]*extent, paths map[uint32]string, resets map[uint32]bool) {
	of, paths, resets = map[uint32]*extent{}, map[uint32]string{}, map[uint32]bool{}
	start := 0
	if bytes.HasPrefix(data, []byte(xhttp2.ClientPreface)) {
		start = len(xhttp2.ClientPreface)
	}
	r := bytes.NewReader(data[start:])
	framer := xhttp2.NewFramer(io.Discard, r)
	framer.SetMaxReadFrameSize(1 << 20)
	framer.ReadMetaHeaders = xhpack.NewDecoder(1<<16, nil)
	for {
		begin := len(data) - r.Len()
		f, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return of, paths, resets
		}
		require.NoError(t, err)
		end := len(data) - r.Len()
		id := f.Header().StreamID
		switch f := f.(type) {
		case *xhttp2.MetaHeadersFrame:
			if path := f.PseudoValue("path"); path != "" {
				paths[id] = path
			}
			if of[id] == nil || strings.HasPrefix(f.PseudoValue("status"), "2") || f.PseudoValue("status") > "2" {
				of[id] = &extent{begin: begin}
			}
			of[id].end, of[id].ended = end, f.StreamEnded()
			of[id].whole += int64(end - begin)
		case *xhttp2.RSTStreamFrame:
			resets[id] = true
		case *xhttp2.DataFrame:
			of[id].end, of[id].ended = end, f.StreamEnded()
			of[id].whole += int64(end - begin)
		}
	}
}
