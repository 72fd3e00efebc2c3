// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http2"
)

// browserFields are those of a request, two of which are asked for; the path is another each time.
func browserFields(path string) []string {
	return []string{
		":method", "GET", ":authority", "shop.example.com", ":scheme", "https", ":path", path,
		"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", "accept-encoding", "gzip, deflate, br, zstd",
		"accept-language", "en-US,en;q=0.5", "cookie", "session=0f8fad5b-d9cb-469f-a165-70867728950e", "cookie", "theme=dark", "cache-control", "no-cache",
		"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-" + path[len(path)-2:],
	}
}

// exchanger feeds one connection with requests and their responses again and again, under new numbers.
type exchanger struct {
	conn      *l7.Conn
	now       int64
	stream    uint32
	exchanges int
	pieces    []l7.Piece // of one round
	heads     [][]byte   // of the frames whose stream's number is counted up
	each      uint32     // streams of one round
}

// newExchanger makes one whose rounds have so many exchanges at the same time.
func newExchanger(t testing.TB, together int, write func(client, server *end, id uint32, path string)) *exchanger {
	x := &exchanger{each: uint32(together)}
	asked := []string{"traceparent", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "sw8", "content-type", "user-agent"}
	sink := &l7.Sink{Limits: l7.DefaultLimits(), Stats: &l7.Stats{}, Exchange: func(*l7.Exchange) { x.exchanges++ }}
	x.conn = l7.NewConn([]l7.Protocol{http2.New(asked, []string{"content-type", "content-length"})}, l7.TCP, l7.RoleUnknown, sink)
	client, server := newEnd(t), newEnd(t)
	client.hello()
	server.settings()
	x.feed(l7.Read, client.take())
	x.feed(l7.Write, server.take())
	for round := range 3 { // the table of the first is not that of those that follow
		for i := range together {
			write(client, server, uint32(2*i+1), "/api/v1/customers/"+strconv.Itoa(4700+i)+"/orders?status=open&page="+strconv.Itoa(10+i%80))
		}
		x.pieces = []l7.Piece{whole(l7.Read, 0, client.take()), whole(l7.Write, 0, server.take())}
		if round < 2 {
			x.number()
			x.once()
		}
	}
	x.number()
	return x
}

// number finds the frames of streams.
func (x *exchanger) number() {
	x.heads = nil
	for _, p := range x.pieces {
		for data := p.Data; len(data) >= 9; {
			x.heads = append(x.heads, data[5:9])
			length := int(data[0])<<16 | int(data[1])<<8 | int(data[2])
			data = data[min(len(data), 9+length):]
		}
	}
	if x.stream > 0 {
		for _, head := range x.heads {
			binary.BigEndian.PutUint32(head, binary.BigEndian.Uint32(head)+x.stream)
		}
	}
}

func (x *exchanger) feed(d l7.Direction, data []byte) {
	x.now += 1000
	x.conn.Feed(l7.Piece{Direction: d, Began: x.now - 500, Ended: x.now, Length: int64(len(data)), Data: data})
}

func (x *exchanger) once() {
	for _, p := range x.pieces {
		x.now += 1000
		p.Began, p.Ended = x.now, x.now+500
		x.conn.Feed(p)
	}
	x.stream += 2 * x.each
	for _, head := range x.heads {
		binary.BigEndian.PutUint32(head, binary.BigEndian.Uint32(head)+2*x.each)
	}
}

func (x *exchanger) bytes() (n int64) {
	for _, p := range x.pieces {
		n += int64(len(p.Data))
	}
	return n
}

func requireNoAllocs(t testing.TB, x *exchanger) {
	t.Helper()
	x.once()
	before := x.exchanges
	require.Zero(t, testing.AllocsPerRun(200, x.once))
	require.Equal(t, 201*int(x.each), x.exchanges-before)
}

func browse(client, server *end, id uint32, path string) {
	client.headers(id, true, browserFields(path)...)
	server.headers(id, true, ":status", "304", "server", "nginx/1.26.3", "date", "Sun, 22 Nov 2026 10:00:"+path[len(path)-2:]+" GMT", "etag", `"673e1f28-267"`, "cache-control", "max-age=3600")
}

func unary(client, server *end, id uint32, path string) {
	client.headers(id, false, ":method", "POST", ":scheme", "http", ":path", "/shop.v1.Orders/Place", ":authority", "orders", "content-type", "application/grpc", "te", "trailers",
		"grpc-timeout", "1S", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"+path[len(path)-2:])
	client.data(id, true, "\x00\x00\x00\x00\x05hello")
	server.headers(id, false, ":status", "200", "content-type", "application/grpc").data(id, false, "\x00\x00\x00\x00\x05hello").headers(id, true, "grpc-status", "0", "grpc-message", "")
}

func large(client, server *end, id uint32, path string) {
	client.get(id, path)
	server.headers(id, false, ":status", "200").data(id, false, string(bytes.Repeat([]byte("x"), 16384))).data(id, true, string(bytes.Repeat([]byte("x"), 16384)))
}

// TestExchangesAllocateNothing holds for what is usual.
func TestExchangesAllocateNothing(t *testing.T) {
	requireNoAllocs(t, newExchanger(t, 1, browse))
	requireNoAllocs(t, newExchanger(t, 50, browse))
	requireNoAllocs(t, newExchanger(t, 20, unary))
	requireNoAllocs(t, newExchanger(t, 1, large))
}

// TestMemoryOfAUsualConnection checks what a connection with one request after the other takes.
func TestMemoryOfAUsualConnection(t *testing.T) {
	x := newExchanger(t, 1, browse)
	for range 1000 {
		x.once()
	}
	require.Less(t, x.conn.Held(), 12<<10)
	t.Log("bytes held:", x.conn.Held())
}

// TestMemoryOfAHostileConnection fills all that is kept.
func TestMemoryOfAHostileConnection(t *testing.T) {
	p := meet(t, l7.DefaultLimits())
	p.client.hello()
	p.server.settings()
	p.pass()
	long := strings.Repeat("\x02", 7000)
	for id := uint32(1); id < 700; id += 2 {
		p.client.headers(id, false, ":method", "POST", ":scheme", "http", ":path", "/"+long, "x-request", long, "cookie", long)
		p.server.headers(id, false, ":status", "200", "x-of", long, "content-type", long)
		p.pass()
	}
	require.Equal(t, uint64(94), p.stats.Unkept)
	require.Less(t, p.Held(), 3<<20)
	t.Log("bytes held:", p.Held())
	p.Close()
	require.Len(t, p.reported, 256)
}
