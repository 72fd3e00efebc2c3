// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// kept is what was kept of an exchange.
type kept struct {
	path              string
	status            int
	request, response *l7.Content // copies, nil where there was none
	sizes             [2]int64    // of the whole messages
}

// keeping is a server's connection of which contents are kept.
type keeping struct {
	*pair
	contents l7.Contents
	kept     []kept
}

const room = 1 << 20

// keep greets on a connection of which the contents are kept whose path begins with /kept.
func keep(t *testing.T, body int) *keeping {
	k := &keeping{pair: meet(t, l7.DefaultLimits())}
	k.contents = l7.Contents{Wanted: wantKept, Body: body, Head: 1 << 10, Calls: 4, Left: room}
	k.listener.keepContents(&k.contents, func(e *l7.Exchange) {
		k.kept = append(k.kept, kept{
			string(httpexchange.Of(e).Path), httpexchange.Of(e).Status, copyOf(e.Request.Content), copyOf(e.Response.Content), [2]int64{e.Request.Whole, e.Response.Whole},
		})
	})
	k.client.hello()
	k.server.settings()
	k.pass()
	return k
}

func wantKept(path, _ []byte) uint64 {
	if strings.HasPrefix(string(path), "/kept") {
		return 6
	}
	return 0
}

func copyOf(c *l7.Content) *l7.Content {
	if c == nil {
		return nil
	}
	return &l7.Content{
		For: c.For, Head: append([]byte{}, c.Head...), MoreFields: c.MoreFields, Body: append([]byte{}, c.Body...), Cut: c.Cut,
		Calls: append([]l7.Call{}, c.Calls...), MoreCalls: c.MoreCalls,
	}
}

// cut feeds what both ends wrote in random pieces; seed 0: in one each.
func (k *keeping) cut(rnd *rand.Rand, seed uint64) {
	for d, data := range [2][]byte{k.client.take(), k.server.take()} {
		for len(data) > 0 {
			n := len(data)
			if seed > 0 {
				n = 1 + rnd.IntN(len(data))
			}
			k.feed(l7.Direction(d), data[:n])
			data = data[n:]
		}
	}
}

// TestContents checks that heads, bodies and calls are what was sent, of streams that are on their way at the same time, however all was cut
// into frames and calls.
func TestContents(t *testing.T) {
	const big = 300
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		k := keep(t, 10_000)
		c, s := k.client, k.server
		for round := range 2 { // fields of the second are places in the table
			id := uint32(1 + 10*round)
			c.headers(id, false, ":method", "POST", ":scheme", "http", ":path", "/kept?a=1", "x-one", "first", "cookie", "a=b", "cookie", "c=d")
			c.headers(id+2, true, ":method", "GET", ":scheme", "http", ":path", "/other", "x-one", "second")
			c.data(id, false, "hello ")
			c.headers(id+4, true, ":method", "GET", ":scheme", "http", ":path", "/kept/get")
			require.NoError(t, c.WriteDataPadded(id, true, []byte("world"), make([]byte, 9)))
			s.headers(id, false, ":status", "103", "link", "x")
			s.headers(id+4, false, ":status", "200", "x-long", strings.Repeat("l", 40))
			s.data(id+4, false, "one")
			fields := s.fields(":status", "201", "content-type", "text/plain", "set-cookie", "e=f")
			require.NoError(t, s.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: fields[:2]}))
			require.NoError(t, s.WriteContinuation(id, true, fields[2:]))
			s.headers(id+2, true, ":status", "204")
			s.data(id, false, strings.Repeat("z", big))
			s.data(id+4, true, "two")
			s.headers(id, true, "x-trailer", "t")
			k.cut(rnd, seed)
		}
		k.Close()
		require.Len(t, k.kept, 6, "seed %d", seed)
		for _, of := range k.kept {
			switch of.path {
			case "/kept":
				require.EqualValues(t, 6, of.request.For)
				require.Equal(t, "x-one: first\ncookie: a=b\ncookie: c=d\n", string(of.request.Head), "seed %d", seed)
				require.Equal(t, "hello world", string(of.request.Body))
				require.EqualValues(t, 6, of.response.For)
				require.Equal(t, "content-type: text/plain\nset-cookie: e=f\n", string(of.response.Head), "seed %d", seed)
				require.Equal(t, strings.Repeat("z", big), string(of.response.Body))
			case "/kept/get":
				require.Empty(t, of.request.Head)
				require.Equal(t, "x-long: "+strings.Repeat("l", 40)+"\n", string(of.response.Head))
				require.Equal(t, "onetwo", string(of.response.Body))
			default:
				require.Nil(t, of.request)
				require.Nil(t, of.response)
				continue
			}
			for i, content := range []*l7.Content{of.request, of.response} {
				require.False(t, content.Cut)
				require.Zero(t, content.MoreFields)
				if content.MoreCalls > 0 {
					require.Len(t, content.Calls, 4)
					continue
				}
				bytes := int64(0)
				for _, call := range content.Calls {
					require.Positive(t, call.Length, "seed %d: %v", seed, content.Calls)
					require.EqualValues(t, 5, call.Ended-call.Began)
					bytes += call.Length
				}
				require.Equal(t, of.sizes[i], bytes, "seed %d: %s, %d: %v", seed, of.path, i, content.Calls)
			}
		}
		require.Equal(t, room, k.contents.Left, "all room is given back")
		require.Zero(t, k.contents.Full)
	}
}

// TestCutContents checks that of a body longer than its limit, or of which bytes are not known or lost, its beginning is kept and marked,
// and that what follows on the connection, and concurrently, is not harmed.
func TestCutContents(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	const head = 9
	for name, c := range map[string]struct {
		limit int
		say   func(*keeping)
		want  string
	}{
		"longer":         {15, func(k *keeping) { k.server.data(1, true, long); k.pass() }, long[:15]},
		"of many frames": {15, func(k *keeping) { k.server.data(1, false, long[:10]).data(1, true, long[10:]); k.pass() }, long[:15]},
		"not known": {room, func(k *keeping) {
			data := k.server.data(1, true, long).take()
			k.feedMore(l7.Write, data[:head+20], int64(len(data)-head-20))
		}, long[:20]},
		"known again": {room, func(k *keeping) {
			data := k.server.data(1, true, long).take()
			k.feedMore(l7.Write, data[:head+20], 100)
			k.feed(l7.Write, data[head+120:])
		}, long[:20]},
		"lost": {room, func(k *keeping) {
			data := k.server.data(1, true, long).take()
			k.feed(l7.Write, data[:head+500])
			k.feedLost(l7.Write, 100, data[head+600:])
		}, long[:500]},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t, c.limit)
			k.client.get(1, "/kept").get(3, "/kept/beside")
			k.server.headers(1, false, ":status", "200").headers(3, false, ":status", "200")
			k.pass()
			c.say(k)
			k.server.data(3, true, "beside")
			k.client.get(5, "/kept/next")
			k.pass()
			k.server.headers(5, false, ":status", "200").data(5, true, "next")
			k.pass()
			k.Close()
			require.Len(t, k.kept, 3)
			require.True(t, k.kept[0].response.Cut)
			require.Equal(t, c.want, string(k.kept[0].response.Body))
			require.Equal(t, "beside", string(k.kept[1].response.Body))
			require.Equal(t, "next", string(k.kept[2].response.Body))
			require.False(t, k.kept[2].response.Cut)
			require.Equal(t, room, k.contents.Left)
		})
	}
}

// TestHostileHeadsAreKeptWithinBounds checks that a bomb of places of the table, and fields that cannot be lines of their own, neither take
// more room than there is nor become other fields.
func TestHostileHeadsAreKeptWithinBounds(t *testing.T) {
	k := keep(t, 100)
	c := k.client
	fields := c.fields(":method", "GET", ":scheme", "http", ":path", "/kept", "x-bomb", strings.Repeat("b", 900))
	fields = append(fields, strings.Repeat("\xbe", 10_000)...) // that field again
	require.NoError(t, c.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: fields, EndStream: true, EndHeaders: true}))
	c.headers(3, true, ":method", "GET", ":scheme", "http", ":path", "/kept/odd", "x-a", "1\r\nx-forged: 2", " folded", "3", "x:y", "4", "", "5", ":late", "6", "x-b", "7")
	k.pass()
	require.LessOrEqual(t, room-k.contents.Left, 4<<10)
	k.server.headers(1, true, ":status", "200").headers(3, true, ":status", "200")
	k.pass()
	require.Len(t, k.kept, 2)
	require.Equal(t, fmt.Sprintf("x-bomb: %s\n", strings.Repeat("b", 900)), string(k.kept[0].request.Head))
	require.Equal(t, 10_000, k.kept[0].request.MoreFields)
	require.Equal(t, "x-a: 1  x-forged: 2\nx-b: 7\n", string(k.kept[1].request.Head))
	require.Equal(t, 4, k.kept[1].request.MoreFields)
	require.Equal(t, room, k.contents.Left)
}

// TestContentsOfWhatEndsEarly checks that the room of messages without an end comes back, and that nothing is kept where there is none.
func TestContentsOfWhatEndsEarly(t *testing.T) {
	k := keep(t, 1000)
	k.contents.Left = 600
	k.client.headers(1, false, ":method", "PUT", ":scheme", "http", ":path", "/kept").data(1, false, strings.Repeat("x", 500))
	k.client.headers(3, false, ":method", "PUT", ":scheme", "http", ":path", "/kept/full").data(3, false, strings.Repeat("x", 500))
	k.pass()
	require.Less(t, k.contents.Left, 200)
	require.GreaterOrEqual(t, k.Held(), 500)
	require.Positive(t, k.contents.Full)
	require.NoError(t, k.client.WriteRSTStream(1, xhttp2.ErrCodeCancel))
	fields := k.client.fields(":method", "GET", ":scheme", "http", ":path", "/kept/half", "x-a", "b")
	require.NoError(t, k.client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 5, BlockFragment: fields}))
	k.pass()
	k.Close()
	require.Equal(t, 600, k.contents.Left)
	require.Len(t, k.kept, 2)
	require.True(t, k.kept[1].request.Cut)
}
