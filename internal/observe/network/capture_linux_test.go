// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// lookup returns a query, or the response to it.
func lookup(t *testing.T, id uint16, response bool) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, Response: response},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := m.Pack()
	require.NoError(t, err)
	return packed
}

// TestAnsweredSocketsAreForgotten checks that a datagram socket is forgotten once all of its queries are answered, not before, and that each
// lookup is counted.
func TestAnsweredSocketsAreForgotten(t *testing.T) {
	series := &table{slots: shared[slot]{items: make([]slot, 1)}}
	series.slots.items[0].Key.Transport = uint8(bindings.NetworkNetworkTransportNETWORK_UDP)
	series.slots.items[0].Key.Pid = 1
	c := newCapture(Config{}, &ring{}, series)
	at := uint64(0)
	record := func(kind bindings.NetworkNetworkSegmentKind, id uint16) {
		at += 1000
		data := lookup(t, id, kind == bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_READ)
		c.record(&segment{Sock: 7, Stream: 1, Kind: uint8(kind), Began: at, Ended: at, Length: uint32(len(data))}, data)
	}
	const read, write = bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_READ, bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_WRITE
	for range 3 {
		record(write, 1)
		record(write, 2)
		record(read, 2)
		require.Len(t, c.streams, 1, "one is waited for")
		record(read, 1)
		require.Empty(t, c.streams)
	}
	counted, _ := c.totals.Exchanges()
	require.EqualValues(t, 6, counted)
	record(write, 1)
	at += 1000
	alone := []byte{0, 2, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0} // with another id
	c.record(&segment{Sock: 7, Stream: 1, Kind: uint8(read), Began: at, Ended: at, Length: uint32(len(alone))}, alone)
	require.Len(t, c.streams, 1, "what was asked is waited for")
	record(read, 1)
	require.Empty(t, c.streams)
	counted, _ = c.totals.Exchanges()
	require.EqualValues(t, 7, counted)
}

// TestUnansweredLookupsAreReported checks that a lookup without an answer is reported when its socket has been quiet for long enough, and one
// of a socket whose other lookups are answered after a minute, whether or not anything else is tracked.
func TestUnansweredLookupsAreReported(t *testing.T) {
	var reported []uint16
	f := follow(Config{exchanged: func(_ uint32, e *l7.Exchange) {
		if e.ErrorType == l7.ErrorNoResponse {
			reported = append(reported, e.Operation.(*dns.Exchange).ID)
		}
	}}, bindings.NetworkNetworkTransportNETWORK_UDP)
	say := func(sock uint64, kind l7.Direction, id uint16) {
		f.recordText(sock, kind, string(lookup(t, id, kind == l7.Read)))
	}
	say(7, l7.Write, 1)
	say(8, l7.Write, 2)
	for second := range 70 {
		f.sweep(0) // what was transferred is newer
		f.sweep(uint64(f.at))
		want := []uint16(nil)
		if second >= 10 {
			want = append(want, 1)
		}
		if second >= 60 {
			want = append(want, 2)
		}
		require.Equal(t, want, reported, "after %v", f.at)
		for _, sock := range []uint64{8, 9} { // 9 has no other query, as of a client with a socket for each lookup
			say(sock, l7.Write, 3)
			say(sock, l7.Read, 3)
		}
		f.at += time.Second
	}
	say(8, l7.Write, 4)
	f.sweep(uint64(f.at + 9*time.Second))
	require.Equal(t, []uint16{1, 2}, reported)
	f.sweep(uint64(f.at + 11*time.Second))
	require.Equal(t, []uint16{1, 2, 4}, reported)
	require.Empty(t, f.streams)
}

// TestSweepsGoOn checks that a lookup without an answer is reported while nothing at all is written to the ring buffer.
func TestSweepsGoOn(t *testing.T) {
	reported := make(chan string, 1)
	config := Config{interval: time.Millisecond, quiet: time.Millisecond, exchanged: func(_ uint32, e *l7.Exchange) { reported <- e.ErrorType }}
	f := follow(config, bindings.NetworkNetworkTransportNETWORK_UDP)
	s := &scripted{ends: make(chan error), flushed: make(chan struct{})}
	f.ring.records = s
	now, _, err := kernel.Monotonic()
	require.NoError(t, err)
	f.at = time.Duration(now)
	f.recordText(7, l7.Write, string(lookup(t, 1, false)))
	f.ended.Go(f.run)
	require.Eventually(t, func() bool {
		select {
		case s.ends <- os.ErrDeadlineExceeded:
		default:
		}
		return len(reported) > 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, l7.ErrorNoResponse, <-reported)
	require.NoError(t, f.close())
	require.Empty(t, f.streams)
}

// TestConnectionsAreBoundedByTheirMemory checks that connections keep to their memory, however many there are and whatever they are made to
// take, that those are given up that are quiet or take much, that this is counted, and that the others are still reported.
func TestConnectionsAreBoundedByTheirMemory(t *testing.T) {
	const (
		get  = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
		ok   = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		many = 4 * minConnected / 2000
	)
	begin := func() (*capture, func(sock uint64, kind l7.Direction, text string)) {
		f := followTCP(Config{})
		return f.capture, func(sock uint64, kind l7.Direction, text string) {
			f.recordText(sock, kind, text)
			require.LessOrEqual(t, f.connected, uint64(minConnected))
		}
	}
	sum := func(c *capture) (held uint64) {
		for _, s := range c.streams {
			held += streamBytes + uint64(s.conn.Held())
		}
		return held
	}
	t.Run("many", func(t *testing.T) {
		c, record := begin()
		for sock := range uint64(many) {
			record(sock+2, l7.Read, get)
			record(sock+2, l7.Write, ok)
			record(1, l7.Read, get) // is in use all the time
			record(1, l7.Write, ok)
		}
		counted, _ := c.totals.Exchanges()
		require.EqualValues(t, 2*many, counted, "each had its room when it was used")
		require.Less(t, len(c.streams), many/2)
		require.Zero(t, c.lostInAll("connections_full"), "nothing is lost with those between requests")
		require.Contains(t, c.streams, streamID{sock: 1})
		require.Contains(t, c.streams, streamID{sock: many + 1})
		require.NotContains(t, c.streams, streamID{sock: 2}, "the quiet ones go first")
		c.sweep(0)
		require.Equal(t, sum(c), c.connected)
		for id, s := range c.streams {
			c.forget(id, s)
		}
		require.Zero(t, c.connected)
	})
	t.Run("much", func(t *testing.T) {
		const usual, greedy = 100, 50
		c, record := begin()
		for sock := range uint64(usual) {
			record(sock, l7.Read, get)
		}
		head := "GET /" + strings.Repeat("x", 4000) + " HTTP/1.1\r\nHost: " + strings.Repeat("h", 3000) + "\r\n\r\n"
		for sock := range uint64(greedy) {
			for range 64 {
				record(usual+sock, l7.Read, head)
			}
		}
		require.Positive(t, c.lostInAll("connections_full"))
		for sock := range uint64(usual) {
			require.Contains(t, c.streams, streamID{sock: sock})
			record(sock, l7.Write, ok)
		}
		counted, _ := c.totals.Exchanges()
		require.EqualValues(t, usual, counted, "what was given up is not reported as if it had ended")
	})
}

// TestRequestsOfEvictedConnectionsAreCounted checks that the loss counter has each request that is open on a connection that is given up for
// lack of memory, with any protocol.
func TestRequestsOfEvictedConnectionsAreCounted(t *testing.T) {
	const requests = 20
	calls := newRemoteCalls()
	for name, request := range map[string]func() string{
		"HTTP/1":      func() string { return "GET /a HTTP/1.1\r\nHost: h\r\n\r\n" },
		"HTTP/2":      func() string { request, _ := calls.make(t); return request },
		"a beginning": func() string { return "G" },
	} {
		want := uint64(requests)
		f := followTCP(Config{})
		for range requests {
			f.recordText(1, l7.Write, request())
			if name == "a beginning" {
				want = 1
				break
			}
		}
		f.mostConnected = 0
		f.relieve()
		require.Empty(t, f.streams)
		require.Equal(t, want, f.lostInAll("connections_full"), name)
	}
}

// TestConnectionsThatWereGivenUpAreNotLost checks that the loss counter leaves out connections that one end has ended, and whose requests
// were exported before they are evicted.
func TestConnectionsThatWereGivenUpAreNotLost(t *testing.T) {
	var exported []string
	f := followTCP(Config{exchanged: exchangedInShort(&exported)})
	f.recordText(1, l7.Write, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
	f.at += time.Millisecond
	f.record(&segment{Sock: 1, Kind: uint8(bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_ENDING), Began: uint64(f.at), Position: uint32(bindings.NetworkNetworkEndNETWORK_END_LOCAL)}, nil)
	f.pass(2 * endedFor)
	require.Len(t, exported, 1)
	f.mostConnected = 0
	f.relieve()
	require.Empty(t, f.streams)
	require.Zero(t, f.lostInAll("connections_full"))
	require.Len(t, exported, 1)
}

// followed are connections that are parsed, without a kernel.
type followed struct {
	*capture
	at time.Duration // now, as of CLOCK_MONOTONIC
}

func followTCP(config Config) *followed {
	return follow(config, bindings.NetworkNetworkTransportNETWORK_TCP)
}

func followUnix(config Config) *followed {
	return follow(config, bindings.NetworkNetworkTransportNETWORK_UNIX)
}

func follow(config Config, transport bindings.NetworkNetworkTransport) *followed {
	series := &table{slots: shared[slot]{items: make([]slot, 1)}}
	series.slots.items[0].Key.Transport = uint8(transport)
	series.slots.items[0].Key.Pid = 1
	return &followed{capture: newCapture(config, &ring{}, series)}
}

// recordText records that a process reads or writes a text, a millisecond later.
func (f *followed) recordText(sock uint64, kind l7.Direction, text string) {
	f.recordTextOf(&segment{Sock: sock}, kind, text)
}

// recordTextOf records a text with the other fields of a segment, a millisecond later.
func (f *followed) recordTextOf(p *segment, kind l7.Direction, text string) {
	f.at += time.Millisecond
	p.Kind, p.Began, p.Ended, p.Length = uint8(kind), uint64(f.at), uint64(f.at), uint32(len(text))
	f.record(p, []byte(text))
}

// recordClose records that a connection is closed, a millisecond later.
func (f *followed) recordClose(p *segment) {
	f.at += time.Millisecond
	p.Kind, p.Began, p.Ended = uint8(bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_CLOSED), uint64(f.at), uint64(f.at)
	f.record(p, nil)
}

// pass lets time pass, in which another connection is used.
func (f *followed) pass(by time.Duration) {
	f.at += by
	f.recordText(1<<40, l7.Read, "GET /other HTTP/1.1\r\nHost: h\r\n\r\n")
	f.recordText(1<<40, l7.Write, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	f.sweep(uint64(f.at))
}

// exchangedInShort notes in short the exchanges of a process, without those of pass.
func exchangedInShort(to *[]string) func(uint32, *l7.Exchange) {
	return func(_ uint32, e *l7.Exchange) {
		if string(httpexchange.Of(e).Path) == "/other" {
			return
		}
		short := fmt.Sprintf("%s %s %d %s", httpexchange.Of(e).Method, httpexchange.Of(e).Path, httpexchange.Of(e).Status, e.ErrorType)
		if call, ok := e.Operation.(*grpccall.Call); ok {
			short = fmt.Sprintf("%s/%s %s", call.Service, call.Name, e.ErrorType)
		}
		*to = append(*to, strings.TrimSpace(short))
	}
}

// remoteCalls are those of one gRPC client: each after the first refers to what the one before has sent.
type remoteCalls struct {
	requests, responses       bytes.Buffer
	requestFields, respFields *hpack.Encoder
	next                      uint32
}

func newRemoteCalls() *remoteCalls {
	c := &remoteCalls{next: 1}
	c.requestFields, c.respFields = hpack.NewEncoder(&c.requests), hpack.NewEncoder(&c.responses)
	return c
}

// make returns the next call's frames.
func (c *remoteCalls) make(t *testing.T) (request, response string) {
	t.Helper()
	fields := func(to *hpack.Encoder, block *bytes.Buffer, pairs ...string) []byte {
		block.Reset()
		for i := 0; i < len(pairs); i += 2 {
			require.NoError(t, to.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
		}
		return bytes.Clone(block.Bytes())
	}
	var out, in bytes.Buffer
	if c.next == 1 {
		out.WriteString(http2.ClientPreface)
	}
	asks, answers := http2.NewFramer(&out, nil), http2.NewFramer(&in, nil)
	if c.next == 1 {
		require.NoError(t, asks.WriteSettings())
		require.NoError(t, answers.WriteSettings())
	}
	require.NoError(t, asks.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, EndHeaders: true, BlockFragment: fields(c.requestFields, &c.requests,
		":method", "POST", ":scheme", "http", ":path", "/shop.Cart/Add", ":authority", "shop", "content-type", "application/grpc", "te", "trailers")}))
	require.NoError(t, asks.WriteData(c.next, true, []byte("\x00\x00\x00\x00\x00")))
	require.NoError(t, answers.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, EndHeaders: true, BlockFragment: fields(c.respFields, &c.responses,
		":status", "200", "content-type", "application/grpc")}))
	require.NoError(t, answers.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, EndHeaders: true, EndStream: true, BlockFragment: fields(c.respFields, &c.responses,
		"grpc-status", "0")}))
	c.next += 2
	return out.String(), in.String()
}

// TestQuietConnectionsAreKept checks that nothing is lost of connections that are quiet for long: calls refer to the fields of those before
// them, and responses may be slow.
func TestQuietConnectionsAreKept(t *testing.T) {
	var reported []string
	f := followTCP(Config{exchanged: exchangedInShort(&reported)})
	calls := newRemoteCalls()
	call := func() {
		request, response := calls.make(t)
		f.recordText(1, l7.Write, request)
		f.recordText(1, l7.Read, response)
	}
	call()
	call()
	f.recordText(2, l7.Read, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
	f.recordText(3, l7.Read, "GET /soon HTTP/1.1\r\nHost: h\r\n\r\n")
	f.recordText(3, l7.Write, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	require.Contains(t, f.streams, streamID{sock: 3})
	f.pass(6 * time.Minute)
	require.NotContains(t, f.streams, streamID{sock: 3}, "nothing is lost with it")
	call()
	f.pass(6 * time.Hour)
	f.recordText(2, l7.Write, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	call()
	require.Equal(t, []string{"shop.Cart/Add", "shop.Cart/Add", "GET /soon 200", "shop.Cart/Add", "GET /slow 200", "shop.Cart/Add"}, reported)
	f.recordText(2, l7.Read, "GET /never HTTP/1.1\r\nHost: h\r\n\r\n")
	reported = nil
	f.pass(13 * time.Hour)
	require.NotContains(t, f.streams, streamID{sock: 2}, "its end is lost")
	f.pass(30 * time.Hour)
	call()
	require.Equal(t, []string{"GET /never 0 no_response", "shop.Cart/Add"}, reported)
	f.slots.items[0].Generation++
	f.pass(6 * time.Minute)
	require.NotContains(t, f.streams, streamID{sock: 1}, "no socket of its series is open any more")
}

// TestIdleConnectionsMakeRoomFirst checks that connections between two requests of HTTP/1 are given up, of which nothing is lost, before
// those whose calls refer to earlier ones, however long these have been quiet.
func TestIdleConnectionsMakeRoomFirst(t *testing.T) {
	var reported []string
	f := followTCP(Config{exchanged: exchangedInShort(&reported)})
	calls := newRemoteCalls()
	call := func() {
		request, response := calls.make(t)
		f.recordText(1, l7.Write, request)
		f.recordText(1, l7.Read, response)
	}
	call()
	f.pass(time.Hour)
	for sock := range uint64(2 * minConnected / 2000) {
		f.recordText(sock+2, l7.Read, "GET /other HTTP/1.1\r\nHost: h\r\n\r\n")
		f.recordText(sock+2, l7.Write, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
	require.Less(t, len(f.streams), minConnected/2000, "some were given up")
	require.Zero(t, f.lostInAll("connections_full"))
	call()
	require.Equal(t, []string{"shop.Cart/Add", "shop.Cart/Add"}, reported)
}

// TestLossWithinTLS checks that if it is unknown how many bytes a library has read without being captured, the request that was sent before
// the next call is not reported with a response, and the one that was sent within it is: calls of one direction are sequential.
func TestLossWithinTLS(t *testing.T) {
	const gap = uint32(bindings.NetworkNetworkSegmentGapNETWORK_SEGMENT_GAP)
	var reported []string
	f := followTCP(Config{exchanged: exchangedInShort(&reported)})
	at := [2]uint32{1, 1}
	record := func(kind l7.Direction, began time.Duration, text string) {
		at[kind] += uint32(len(text))
		f.at += time.Millisecond
		p := &segment{
			Sock: 1, Kind: uint8(kind), Began: uint64(began), Ended: uint64(f.at), Length: uint32(len(text)), Position: at[kind],
			Protocol: uint8(bindings.NetworkNetworkProtocolNETWORK_TLS | bindings.NetworkNetworkProtocolNETWORK_HTTP1),
		}
		f.record(p, []byte(text))
	}
	request := func(path string) { record(l7.Write, f.at, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n") }
	response := func(began time.Duration, status string) {
		record(l7.Read, began, "HTTP/1.1 "+status+" X\r\nContent-Length: 0\r\n\r\n")
	}
	for range 5 { // also several times, as much as the protocol is recognized
		reported = nil
		request("/first")
		response(f.at, "200")
		request("/unseen")
		f.at += time.Second
		began := f.at
		f.at += time.Millisecond
		at[l7.Read] += gap
		request("/after")
		response(began, "404")
		request("/last")
		response(f.at, "200")
		require.Equal(t, []string{"GET /first 200", "GET /unseen 0", "GET /after 404 404", "GET /last 200"}, reported)
	}
}

// TestRefusalsAreRepeated checks that a connection that is not parsed is refused again when another one has taken its slot among those that
// are refused.
func TestRefusalsAreRepeated(t *testing.T) {
	series := &table{slots: shared[slot]{items: make([]slot, 1)}}
	series.slots.items[0].Key.Transport = uint8(bindings.NetworkNetworkTransportNETWORK_TCP)
	c := newCapture(Config{}, &ring{}, series)
	c.refused.items = make([]uint64, 1)
	at := uint64(0)
	record := func(stream uint32) {
		at += uint64(time.Millisecond)
		data := []byte("\x81\x05hello, this is no HTTP")
		c.record(&segment{Sock: uint64(stream), Stream: stream, Kind: uint8(l7.Read), Began: at, Ended: at, Length: uint32(len(data))}, data)
	}
	for _, stream := range []uint32{7, 8} {
		for range 1000 {
			if record(stream); c.refused.items[0] == uint64(stream) {
				break
			}
		}
		require.EqualValues(t, stream, c.refused.items[0])
	}
	record(7)
	require.EqualValues(t, 7, c.refused.items[0])
}
