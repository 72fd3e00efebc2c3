// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// keeping is a server's connection of which contents are kept.
type keeping struct {
	*l7.Conn
	contents l7.Contents
	reported []kept
	now      int64
}

// kept is what was kept of an exchange.
type kept struct {
	path              string
	request, response *l7.Content // copies, nil where there was none
}

const room = 1 << 20

func keep(body int, wanted func(path, query []byte) uint64) *keeping {
	k := &keeping{contents: l7.Contents{Wanted: wanted, Body: body, Head: 1 << 10, Calls: 4, Left: room}}
	copied := func(c *l7.Content) *l7.Content {
		if c == nil {
			return nil
		}
		return &l7.Content{
			For: c.For, Head: append([]byte{}, c.Head...), Body: append([]byte{}, c.Body...), Cut: c.Cut,
			Calls: append([]l7.Call{}, c.Calls...), MoreCalls: c.MoreCalls,
		}
	}
	sink := &l7.Sink{Limits: l7.DefaultLimits(), Stats: &l7.Stats{}, Contents: &k.contents, Exchange: func(e *l7.Exchange) {
		k.reported = append(k.reported, kept{string(httpexchange.Of(e).Path), copied(e.Request.Content), copied(e.Response.Content)})
	}}
	k.Conn = l7.NewConn([]l7.Protocol{http1.New(nil, nil)}, l7.TCP, l7.RoleUnknown, sink)
	return k
}

// say has a call transfer a text of which no more than so many bytes are known.
func (k *keeping) say(direction l7.Direction, text string, known int) {
	k.now += 10
	k.Feed(l7.Piece{Direction: direction, Began: k.now - 5, Ended: k.now, Length: int64(len(text)), Data: []byte(text)[:min(known, len(text))]})
}

func wantAll(_, _ []byte) uint64 { return 6 }

// entire says that all bytes of a call are known.
const entire = 1 << 20

// TestContents checks that heads, bodies without their framing, and calls are what was sent, however it was cut into calls.
func TestContents(t *testing.T) {
	const (
		post     = "POST /pay?a=1 HTTP/1.1\r\nHost: shop\r\nX-Long: one\r\n two\r\nContent-Length: 11\r\n\r\nhello world"
		created  = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\n\r\n5;x=y\r\nfirst\r\n7\r\n second\r\n0\r\n\r\n"
		get      = "GET /none HTTP/1.1\r\nHost: shop\r\n\r\n"
		tillEnd  = "HTTP/1.0 200 OK\r\n\r\nuntil the end"
		interim  = "HTTP/1.1 100 Continue\r\n\r\n"
		requests = post + get
		answers  = interim + created + tillEnd
	)
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		k := keep(100, wantAll)
		for _, part := range []struct {
			direction l7.Direction
			text      string
		}{{l7.Read, requests[:len(post)]}, {l7.Write, interim + created}, {l7.Read, get}, {l7.Write, tillEnd}} {
			for rest := part.text; len(rest) > 0; {
				n := len(rest)
				if seed > 0 {
					n = 1 + rnd.IntN(len(rest))
				}
				k.say(part.direction, rest[:n], entire)
				rest = rest[n:]
			}
		}
		k.Close()
		require.Len(t, k.reported, 2, "seed %d", seed)
		first, second := k.reported[0], k.reported[1]
		require.Equal(t, "/pay", first.path)
		require.EqualValues(t, 6, first.request.For)
		require.EqualValues(t, 6, first.response.For)
		require.Equal(t, "Host: shop\nX-Long: one two\nContent-Length: 11\n", string(first.request.Head), "seed %d", seed)
		require.Equal(t, "hello world", string(first.request.Body))
		require.Equal(t, "Transfer-Encoding: chunked\nSet-Cookie: a=b\n", string(first.response.Head), "seed %d", seed)
		require.Equal(t, "first second", string(first.response.Body), "seed %d", seed)
		require.Equal(t, "until the end", string(second.response.Body))
		require.Empty(t, second.request.Body)
		for i, of := range []struct {
			content *l7.Content
			bytes   int
		}{{first.request, len(post)}, {first.response, len(created)}, {second.request, len(get)}, {second.response, len(tillEnd)}} {
			require.False(t, of.content.Cut)
			if of.content.MoreCalls > 0 {
				require.Len(t, of.content.Calls, 4)
				continue
			}
			bytes := 0
			for _, call := range of.content.Calls {
				require.Positive(t, call.Length, "seed %d: %d: %v", seed, i, of.content.Calls)
				require.EqualValues(t, 5, call.Ended-call.Began)
				bytes += int(call.Length)
			}
			require.Equal(t, of.bytes, bytes, "seed %d: %d: %v", seed, i, of.content.Calls)
		}
		require.Equal(t, room, k.contents.Left, "all room is given back")
		require.Zero(t, k.contents.Full)
	}
}

// TestPipelinedContents checks that requests in one call each have their own content.
func TestPipelinedContents(t *testing.T) {
	const ask, answer = "PUT /%d HTTP/1.1\r\nContent-Length: 2\r\n\r\n#%d", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n=%d"
	k := keep(100, wantAll)
	k.say(l7.Read, fmt.Sprintf(ask, 1, 1)+fmt.Sprintf(ask, 2, 2), entire)
	k.say(l7.Write, fmt.Sprintf(answer, 1)+fmt.Sprintf(answer, 2), entire)
	k.Close()
	require.Len(t, k.reported, 2)
	for i, of := range k.reported {
		require.Equal(t, fmt.Sprintf("#%d", i+1), string(of.request.Body))
		require.Equal(t, fmt.Sprintf("=%d", i+1), string(of.response.Body))
		require.EqualValues(t, len(ask)-2, of.request.Calls[0].Length)
		require.EqualValues(t, len(answer)-1, of.response.Calls[0].Length)
	}
	require.Equal(t, room, k.contents.Left)
}

// TestCutContents checks that of a body longer than its limit, or of which bytes are not known or lost, its beginning is kept and marked,
// and that what follows on the connection is not harmed.
func TestCutContents(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(long))
	for name, c := range map[string]struct {
		limit int
		say   func(*keeping)
		want  string
	}{
		"longer":        {15, func(k *keeping) { k.say(l7.Write, answer+long, entire) }, long[:15]},
		"of many calls": {15, func(k *keeping) { k.say(l7.Write, answer+long[:10], entire); k.say(l7.Write, long[10:], entire) }, long[:15]},
		"not known":     {entire, func(k *keeping) { k.say(l7.Write, answer+long, len(answer)+20) }, long[:20]},
		"known again": {entire, func(k *keeping) {
			k.say(l7.Write, answer+long[:900], len(answer)+20)
			k.say(l7.Write, long[900:], entire)
		}, long[:20]},
		"lost": {entire, func(k *keeping) {
			k.say(l7.Write, answer+long[:500], entire)
			k.now += 10
			k.Feed(l7.Piece{Direction: l7.Write, Began: k.now, Ended: k.now, Length: 400, Data: []byte(long[600:]), Lost: 100})
		}, long[:500]},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(c.limit, wantAll)
			k.say(l7.Read, "GET / HTTP/1.1\r\n\r\n", entire)
			c.say(k)
			k.say(l7.Read, "GET /next HTTP/1.1\r\n\r\n", entire)
			k.say(l7.Write, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext", entire)
			k.Close()
			require.Len(t, k.reported, 2)
			require.True(t, k.reported[0].response.Cut)
			require.Equal(t, c.want, string(k.reported[0].response.Body))
			require.Equal(t, "next", string(k.reported[1].response.Body))
			require.Equal(t, room, k.contents.Left)
		})
	}
}

// TestCallsInSeveralPieces checks that a call which is reported in several pieces is one call.
func TestCallsInSeveralPieces(t *testing.T) {
	k := keep(100, wantAll)
	const request = "PUT /long HTTP/1.1\r\nContent-Length: 9\r\n\r\nsome text"
	for _, n := range [][2]int{{0, 7}, {7, 30}, {30, 45}, {45, len(request)}} {
		text := request[n[0]:n[1]]
		k.Feed(l7.Piece{Direction: l7.Read, Began: 1, Ended: 7, Length: int64(len(text)), Data: []byte(text)})
	}
	k.now = 100
	k.say(l7.Write, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", entire)
	require.Len(t, k.reported, 1)
	require.Equal(t, "some text", string(k.reported[0].request.Body))
	require.Equal(t, []l7.Call{{Direction: l7.Read, Began: 1, Ended: 7, Length: int64(len(request))}}, k.reported[0].request.Calls)
}

// TestUnwantedContents checks that nothing is kept of requests that are not wanted.
func TestUnwantedContents(t *testing.T) {
	k := keep(100, func(path, query []byte) uint64 {
		if string(path) == "/wanted" && string(query) == "a=1" {
			return 1
		}
		return 0
	})
	for _, target := range []string{"/wanted", "/wanted?a=1", "/other?a=1"} {
		k.say(l7.Read, "GET "+target+" HTTP/1.1\r\nHost: a\r\n\r\n", entire)
		k.say(l7.Write, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", entire)
	}
	k.Close()
	require.Len(t, k.reported, 3)
	for i, of := range k.reported {
		require.Equal(t, i == 1, of.request != nil)
		require.Equal(t, i == 1, of.response != nil)
	}
}

// TestRoomForContents checks that contents are cut and counted where there is no room, and that room comes back when connections end.
func TestRoomForContents(t *testing.T) {
	k := keep(1<<10, wantAll)
	k.contents.Left = 600
	body := strings.Repeat("x", 500)
	k.say(l7.Read, fmt.Sprintf("PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body), entire)
	require.Less(t, k.contents.Left, 200)
	require.GreaterOrEqual(t, k.Held(), 500)
	k.say(l7.Write, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body), entire)
	require.Len(t, k.reported, 1)
	require.True(t, k.reported[0].response.Cut)
	require.Less(t, len(k.reported[0].response.Body), 200)
	require.Positive(t, k.contents.Full)
	require.Equal(t, 600, k.contents.Left)
	k.say(l7.Read, fmt.Sprintf("PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body[1:]), entire)
	require.Less(t, k.contents.Left, 200)
	k.Close()
	require.Equal(t, 600, k.contents.Left)
}
