// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// pair is the two ends of a connection, and a server's view of it.
type pair struct {
	t              *testing.T
	client, server *end
	*listener
}

// greet makes a connection whose beginning is seen.
func greet(t *testing.T) *pair {
	p := meet(t, l7.DefaultLimits())
	p.client.hello()
	p.server.settings()
	p.pass()
	return p
}

// meet makes a connection of which nothing was seen.
func meet(t *testing.T, limits l7.Limits) *pair {
	return &pair{t, newEnd(t), newEnd(t), listenWithin(limits)}
}

// pass lets the server read what the client wrote, then write its own, a piece each.
func (p *pair) pass() {
	if data := p.client.take(); len(data) > 0 {
		p.feed(l7.Read, data)
	}
	if data := p.server.take(); len(data) > 0 {
		p.feed(l7.Write, data)
	}
}

// miss is pass where nothing is seen.
func (p *pair) miss() { p.client.take(); p.server.take() }

func TestARequestAndItsResponse(t *testing.T) {
	p := greet(t)
	p.client.headers(1, false, ":method", "POST", ":scheme", "https", ":authority", "shop", ":path", "/a?b=c", "traceparent", "tp", "cookie", "x=1", "cookie", "y=2")
	p.pass()
	p.client.data(1, true, "0123456789")
	p.pass()
	p.server.headers(1, false, ":status", "201", "content-type", "text/plain", "x-of", "one", "x-of", "two")
	p.pass()
	p.server.data(1, true, "abc")
	p.pass()
	require.Len(t, p.reported, 1)
	x := p.reported[0]
	require.Equal(t, l7.Side{Known: true, Ended: true, First: 30, Last: 40, Body: 10, Whole: x.Request.Whole}, x.Request)
	require.Equal(t, l7.Side{Known: true, Ended: true, First: 45, Last: 60, Body: 3, Whole: x.Response.Whole}, x.Response)
	x.Request, x.Response = l7.Side{}, l7.Side{}
	require.Equal(t, reported{
		Role: "server", Method: "POST", Target: "/a?b=c", Scheme: "https", Host: "shop", Path: "/a", Query: "b=c", Version: "2", Status: 201,
		RequestFields: []string{"tp", "x=1; y=2", absent}, ResponseFields: []string{"text/plain", "one, two"},
	}, x)
}

// TestUserinfoIsLeftOut checks that no part of a request says which user a client named, and by which password.
func TestUserinfoIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		fields     []string
		host, path string
	}{
		{[]string{":method", "GET", ":scheme", "https", ":authority", "alice:SECRET@shop.example:8443", ":path", "/a"}, "shop.example:8443", "/a"},
		{[]string{":method", "GET", ":scheme", "https", ":path", "/a", "host", "alice:SECRET@shop.example"}, "shop.example", "/a"},
		{[]string{":method", "GET", ":scheme", "https", ":authority", "h", ":path", "https://alice:SECRET@shop.example/a"}, "h", "/a"},
		{[]string{":method", "CONNECT", ":authority", "alice:SECRET@shop.example:443"}, "shop.example:443", ""},
	} {
		p := greet(t)
		p.client.headers(1, true, c.fields...)
		p.pass()
		p.server.headers(1, true, ":status", "200")
		p.pass()
		require.Len(t, p.reported, 1)
		require.Equal(t, []string{c.host, c.path}, []string{p.reported[0].Host, p.reported[0].Path})
		require.NotContains(t, p.reported[0].Target+p.reported[0].Query, "alice:SECRET@shop.example:443")
	}
}

// TestFramesOfAllKinds checks what is reported where more is said than requests and responses.
func TestFramesOfAllKinds(t *testing.T) {
	type want = []any
	ok := want{"GET", "/a", 200, 0, 0, l7.Complete}
	for name, c := range map[string]struct {
		play func(p *pair)
		want []want
	}{
		"padding and priority": {func(p *pair) {
			block := p.client.fields(":method", "GET", ":scheme", "http", ":path", "/a")
			require.NoError(p.t, p.client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, PadLength: 20, Priority: xhttp2.PriorityParam{Weight: 7}}))
			require.NoError(p.t, p.client.WriteDataPadded(1, true, []byte("abc"), make([]byte, 100)))
			p.pass()
			p.server.headers(1, true, ":status", "200")
		}, []want{{"GET", "/a", 200, 3, 0, l7.Complete}}},
		"a block in four frames": {func(p *pair) {
			block := p.client.fields(":method", "GET", ":scheme", "http", ":path", "/a", "x-request", strings.Repeat("x", 100))
			require.NoError(p.t, p.client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:2], EndStream: true}))
			require.NoError(p.t, p.client.WriteContinuation(1, false, block[2:5]))
			p.pass()
			require.NoError(p.t, p.client.WriteContinuation(1, false, nil))
			require.NoError(p.t, p.client.WriteContinuation(1, true, block[5:]))
			p.server.headers(1, true, ":status", "200")
		}, []want{ok}},
		"informational heads": {func(p *pair) {
			p.client.get(1, "/a")
			p.server.headers(1, false, ":status", "103", "link", "x").headers(1, false, ":status", "103").headers(1, true, ":status", "200")
		}, []want{ok}},
		"trailers on both sides": {func(p *pair) {
			p.client.headers(1, false, ":method", "PUT", ":scheme", "http", ":path", "/a").data(1, false, "ab").headers(1, true, "x-sum", "1")
			p.server.headers(1, false, ":status", "200").data(1, false, "abc").headers(1, true, "x-sum", "2")
		}, []want{{"PUT", "/a", 200, 2, 3, l7.Complete}}},
		"unknown streams": {func(p *pair) {
			require.NoError(p.t, p.client.WriteRawFrame(0xbe, 0xff, 1, make([]byte, 300)))
			require.NoError(p.t, p.client.WritePing(false, [8]byte{}))
			require.NoError(p.t, p.client.WriteWindowUpdate(1, 9))
			require.NoError(p.t, p.client.WritePriority(1, xhttp2.PriorityParam{}))
			require.NoError(p.t, p.client.WriteSettingsAck())
			p.client.get(1, "/a")
			p.server.headers(1, true, ":status", "200")
		}, []want{ok}},
		"answers in another order": {func(p *pair) {
			p.client.get(1, "/a").get(3, "/b").get(5, "/c")
			p.server.headers(5, true, ":status", "203").headers(3, false, ":status", "202").headers(1, true, ":status", "200").data(3, true, "b")
		}, []want{{"GET", "/c", 203, 0, 0, l7.Complete}, ok, {"GET", "/b", 202, 0, 1, l7.Complete}}},
		"a response before the request ends": {func(p *pair) {
			p.client.headers(1, false, ":method", "POST", ":scheme", "http", ":path", "/a").data(1, false, "ab")
			p.server.headers(1, true, ":status", "413")
			require.NoError(p.t, p.server.WriteRSTStream(1, xhttp2.ErrCodeNo))
		}, []want{{"POST", "/a", 413, 2, 0, l7.Complete}}},
		"a reset by the client, and what was on its way": {func(p *pair) {
			p.client.get(1, "/a")
			require.NoError(p.t, p.client.WriteRSTStream(1, xhttp2.ErrCodeCancel))
			p.pass()
			p.server.headers(1, false, ":status", "200").data(1, true, "late")
		}, []want{{"GET", "/a", 0, 0, 0, l7.Unanswered}}},
		"a reset by the server": {func(p *pair) {
			p.client.get(1, "/a")
			p.server.headers(1, false, ":status", "200").data(1, false, "abc")
			require.NoError(p.t, p.server.WriteRSTStream(1, xhttp2.ErrCodeInternal))
		}, []want{{"GET", "/a", 200, 0, 3, l7.Aborted}}},
		"the server goes away": {func(p *pair) {
			p.client.get(1, "/a").get(3, "/b")
			require.NoError(p.t, p.server.WriteGoAway(1, xhttp2.ErrCodeNo, []byte("maintenance")))
			p.server.headers(1, true, ":status", "200")
		}, []want{{"GET", "/b", 0, 0, 0, l7.Unanswered}, ok}},
		"a push": {func(p *pair) {
			p.client.get(1, "/a")
			require.NoError(p.t, p.server.WritePushPromise(xhttp2.PushPromiseParam{
				StreamID: 1, PromiseID: 2, EndHeaders: true, PadLength: 3, BlockFragment: p.server.fields(":method", "GET", ":scheme", "http", ":path", "/style.css"),
			}))
			p.server.headers(1, true, ":status", "200").headers(2, false, ":status", "200").data(2, true, "body{}")
		}, []want{ok, {"GET", "/style.css", 200, 0, 6, l7.Complete}}},
		"a tunnel": {func(p *pair) {
			p.client.headers(1, false, ":method", "CONNECT", ":authority", "h:443").data(1, true, "hi")
			p.server.headers(1, false, ":status", "200").data(1, true, "there")
		}, []want{{"CONNECT", "", 200, 2, 5, l7.Complete}}},
		"an unknown method": {func(p *pair) {
			p.client.headers(1, true, ":method", "FROB", ":scheme", "http", ":path", "/a")
			p.server.headers(1, true, ":status", "200")
		}, []want{{"_OTHER", "/a", 200, 0, 0, l7.Complete}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := greet(t)
			c.play(p)
			p.pass()
			p.requireBriefs(t, c.want...)
			require.Equal(t, name == "a push", p.reported[len(p.reported)-1].Pushed)
			require.Equal(t, l7.Stats{Exchanges: uint64(len(c.want))}, p.stats)
			p.client.get(99, "/next")
			p.server.headers(99, true, ":status", "204")
			p.pass()
			require.Equal(t, "/next", p.reported[len(p.reported)-1].Path, "what follows is read")
			p.Close()
			require.Len(t, p.reported, len(c.want)+1)
		})
	}
}

func TestConnectionsEnd(t *testing.T) {
	p := greet(t)
	p.client.get(1, "/one-way").headers(3, false, ":method", "PUT", ":scheme", "http", ":path", "/within").get(5, "/answered").get(7, "/informed")
	p.server.headers(5, false, ":status", "500").data(5, false, "ab").headers(7, false, ":status", "100")
	p.pass()
	p.feed(l7.Write, []byte{0, 0, 9, 0, 0, 0, 0, 0, 5, 'c', 'd'}) // and within a frame
	p.Close()
	p.requireBriefs(t, []any{"GET", "/one-way", 0, 0, 0, l7.Unanswered}, []any{"PUT", "/within", 0, 0, 0, l7.Aborted},
		[]any{"GET", "/answered", 500, 0, 4, l7.Aborted}, []any{"GET", "/informed", 0, 0, 0, l7.Unanswered})
	var errors []string
	for _, x := range p.reported {
		errors = append(errors, x.ErrorType)
	}
	require.Equal(t, []string{"no_response", "aborted", "aborted", "no_response"}, errors)
}

// TestMetLate checks what is reported of a connection that was open before: what refers to what was not seen is unknown, the rest is reported.
func TestMetLate(t *testing.T) {
	p := meet(t, l7.DefaultLimits())
	p.client.hello().get(1, "/often").headers(3, true, ":method", "FROB", ":scheme", "http", ":path", "/often", "x-request", "r")
	p.server.settings().headers(1, true, ":status", "418", "x-of", "often").headers(3, true, ":status", "200")
	p.miss()
	p.client.get(5, "/often").headers(7, true, ":method", "FROB", ":scheme", "http", ":path", "/new", "x-request", "r").get(9, "/new").get(11, "/never")
	p.pass()
	p.server.headers(5, true, ":status", "418", "x-of", "often").headers(7, true, ":status", "500", "x-of", "new").headers(9, true, ":status", "429", "x-of", "new")
	p.server.headers(11, true, ":status", "429", "x-of", "often")
	p.pass()
	p.requireBriefs(t, []any{"GET", "*", 0, 0, 0, l7.Complete}, []any{"*", "/new", 500, 0, 0, l7.Complete}, []any{"GET", "/new", 429, 0, 0, l7.Complete},
		[]any{"GET", "/never", 429, 0, 0, l7.Complete})
	require.Equal(t, "server", p.reported[0].Role)
	require.True(t, p.reported[0].Response.Cut)
	require.Equal(t, []string{absent, absent, absent}, p.reported[1].RequestFields, "whose names are unknown")
	require.True(t, p.reported[1].Request.Cut)
	require.True(t, p.reported[3].Response.Cut)
}

// TestMetWithinARequest checks that the response is reported, without its request.
// TestMetByAFewBytes checks that what is said before it is certain that frames are said has the times of its own calls.
func TestMetByAFewBytes(t *testing.T) {
	client, server := newEnd(t), newEnd(t)
	l := listen()
	request := client.get(1, "/a").take()
	l.feedLost(l7.Read, l7.LostUnknown, client.settings().take())
	l.feed(l7.Read, request[:9])
	l.feed(l7.Read, request[9:])
	l.feed(l7.Write, server.headers(1, true, ":status", "204").take())
	l.requireBriefs(t, []any{"GET", "/a", 204, 0, 0, l7.Complete})
	require.Equal(t, []int64{20, 30}, []int64{l.reported[0].Request.First, l.reported[0].Request.Last})
}

func TestMetWithinARequest(t *testing.T) {
	p := meet(t, l7.DefaultLimits())
	p.client.hello().get(1, "/before")
	p.miss()
	p.server.headers(1, true, ":status", "200")
	p.pass()
	p.client.get(3, "/after")
	p.server.headers(3, true, ":status", "204")
	p.pass()
	p.requireBriefs(t, []any{"", "", 200, 0, 0, l7.Complete}, []any{"GET", "/after", 204, 0, 0, l7.Complete})
	require.Equal(t, uint64(1), p.stats.Unpaired)
}

// TestAnUpgrade follows a connection that begins with HTTP/1.1.
func TestAnUpgrade(t *testing.T) {
	p := meet(t, l7.DefaultLimits())
	p.feed(l7.Read, []byte("GET /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"))
	p.server.settings().headers(1, false, ":status", "200").data(1, true, "abc")
	p.feed(l7.Write, append([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), p.server.take()...))
	p.client.hello().get(3, "/b")
	p.server.headers(3, true, ":status", "204")
	p.pass()
	require.Len(t, p.reported, 3)
	require.Equal(t, []any{"GET", "/a", 101, int64(0), int64(0), l7.Complete}, brief(p.reported[0]))
	require.Equal(t, []any{"", "", 200, l7.Side{}.Body, int64(3), l7.Complete}, brief(p.reported[1]))
	require.Equal(t, []any{"GET", "/b", 204, int64(0), int64(0), l7.Complete}, brief(p.reported[2]))
	require.Equal(t, "server", p.reported[1].Role)
}

// TestAClientReadsBeforeItsWriteReturns is what two threads of a client may look like.
func TestAClientReadsBeforeItsWriteReturns(t *testing.T) {
	p := meet(t, l7.DefaultLimits())
	p.client.hello()
	p.server.settings()
	p.feed(l7.Write, p.client.take())
	p.feed(l7.Read, p.server.take())
	p.client.get(1, "/a")
	p.server.headers(1, true, ":status", "200")
	p.feed(l7.Read, p.server.take())
	require.Empty(t, p.reported)
	p.feed(l7.Write, p.client.take())
	p.requireBriefs(t, []any{"GET", "/a", 200, 0, 0, l7.Complete})
	require.Equal(t, "client", p.reported[0].Role)
}

// TestADataFrameCostsNothingForItsBytes checks that a frame is followed over pieces of which only the length is known.
func TestADataFrameCostsNothingForItsBytes(t *testing.T) {
	p := greet(t)
	p.client.get(1, "/large")
	p.server.headers(1, false, ":status", "200")
	p.pass()
	const size = 16384
	for i := range 100 {
		head := []byte{0, size >> 8, 0, 0, 0, 0, 0, 0, 1}
		if i == 99 {
			head[4] = 1
		}
		p.feedMore(l7.Write, head, 100)
		p.feedMore(l7.Write, nil, size-100)
	}
	p.requireBriefs(t, []any{"GET", "/large", 200, 0, 100 * size, l7.Complete})
	require.Zero(t, p.stats.Losses)
}

// TestAfterALoss checks that what was lost is unknown, and what follows is right.
func TestAfterALoss(t *testing.T) {
	p := greet(t)
	p.client.get(1, "/a").get(3, "/b")
	p.server.headers(1, false, ":status", "200", "x-of", "a").data(1, false, "abc")
	p.pass()
	p.server.data(1, false, "lost").headers(3, false, ":status", "418", "x-of", "b")
	lost := len(p.server.take())
	p.server.data(3, false, "0123").headers(1, true, "x-sum", "1")
	p.feedLost(l7.Write, int64(lost), p.server.take())
	p.client.get(5, "/c")
	p.server.data(3, true, "x").headers(5, true, ":status", "418", "x-of", "b")
	p.pass()
	require.Equal(t, uint64(1), p.stats.Losses)
	p.requireBriefs(t, []any{"GET", "/a", 200, 0, -1, l7.Complete}, []any{"GET", "/b", 0, 0, -1, l7.Complete}, []any{"GET", "/c", 0, 0, 0, l7.Complete})
	require.Equal(t, l7.Side{Known: true, Cut: true, Ended: true, Last: p.now, Body: -1, Whole: -1}, p.reported[1].Response, "its beginning was not seen")
}

// TestWhatIsPassedOverAfterALossIsMissing checks that trailers are not taken for the response whose head was in a piece without a known frame,
// though its request came after the loss.
func TestWhatIsPassedOverAfterALossIsMissing(t *testing.T) {
	p := greet(t)
	p.client.get(1, "/before")
	p.server.headers(1, false, ":status", "200").headers(1, true, "x-sum", "1")
	p.pass()
	p.feedLost(l7.Write, l7.LostUnknown, []byte("the rest of a frame"))
	p.client.get(3, "/a")
	p.pass()
	p.server.headers(3, false, ":status", "200")
	p.feedMore(l7.Write, nil, int64(len(p.server.take())))
	p.server.headers(3, true, "x-sum", "1")
	p.pass()
	p.requireBriefs(t, []any{"GET", "/before", 200, 0, 0, l7.Complete}, []any{"GET", "/a", 0, 0, -1, l7.Complete})
	require.Zero(t, p.reported[1].Response.First)
}

// TestBytesLostWithinAFrame checks that where the next one begins is known still.
func TestBytesLostWithinAFrame(t *testing.T) {
	p := greet(t)
	p.client.get(1, "/a")
	p.server.headers(1, false, ":status", "200").data(1, true, strings.Repeat("x", 1000))
	data := p.server.take()
	p.pass()
	n := len(data)
	p.feed(l7.Write, data[:n-900])
	p.feedLost(l7.Write, 300, data[n-600:n-100])
	p.now += 100
	lost := p.now
	p.client.get(3, "/b")
	p.pass()
	p.now = lost + 17
	p.server.headers(3, true, ":status", "204")
	p.feedLost(l7.Write, 100, p.server.take())
	p.requireBriefs(t, []any{"GET", "/a", 200, 0, 1000, l7.Complete}, []any{"GET", "/b", 204, 0, 0, l7.Complete})
	require.Equal(t, lost+20, p.reported[0].Response.Last, "when the last of the lost bytes was written")
}

func TestWhatIsDoubtfulIsToldWhenItIsQuiet(t *testing.T) {
	p := greet(t)
	p.client.get(1, "/a")
	p.pass()
	p.server.headers(1, true, ":status", "200")
	p.server.take()
	require.NoError(t, p.server.WritePing(false, [8]byte{}))
	p.feedLost(l7.Write, l7.LostUnknown, p.server.take())
	p.Expire(30)
	require.Empty(t, p.reported, "it was not quiet since 30")
	p.Expire(31)
	p.requireBriefs(t, []any{"GET", "/a", 0, 0, 0, l7.Lost})
	require.Empty(t, p.reported[0].ErrorType)
}

func TestMoreRequestsThanAreKeptAreCounted(t *testing.T) {
	limits := l7.DefaultLimits()
	limits.Streams = 2
	p := meet(t, limits)
	p.client.hello().get(1, "/a").get(3, "/b").get(5, "/c")
	p.server.settings().headers(5, true, ":status", "200").headers(1, true, ":status", "200")
	p.pass()
	p.client.get(7, "/d")
	p.server.headers(7, true, ":status", "200")
	p.pass()
	require.Equal(t, l7.Stats{Exchanges: 2, Unkept: 1}, p.stats)
	p.requireBriefs(t, []any{"GET", "/a", 200, 0, 0, l7.Complete}, []any{"GET", "/d", 200, 0, 0, l7.Complete})
}

// TestBlocksThatBreakTheRules checks that what follows is reported as far as it is known.
func TestBlocksThatBreakTheRules(t *testing.T) {
	p := greet(t)
	require.NoError(t, p.client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82, 0x80, 0x84}, EndStream: true, EndHeaders: true}))
	p.client.get(3, "/next")
	p.server.headers(1, true, ":status", "400").headers(3, true, ":status", "200")
	p.pass()
	p.requireBriefs(t, []any{"GET", "*", 400, 0, 0, l7.Complete}, []any{"GET", "/next", 200, 0, 0, l7.Complete})
	require.Equal(t, l7.Stats{Exchanges: 2, Invalid: 1, Cut: 1}, p.stats)
}
