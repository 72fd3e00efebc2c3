// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
)

// browserRequest is a request of some 650 bytes with ten fields, two of which are asked for.
const browserRequest = "GET /api/v1/customers/4711/orders?status=open&page=2&sort=-created HTTP/1.1\r\n" +
	"Host: shop.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
	"Accept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Referer: https://shop.example.com/customers/4711\r\n" +
	"Connection: keep-alive\r\n" +
	"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n" +
	"Cookie: session=0f8fad5b-d9cb-469f-a165-70867728950e; theme=dark; consent=all\r\n" +
	"Cache-Control: no-cache\r\n\r\n"

// exchanger feeds one connection with the same request and response again and again.
type exchanger struct {
	conn      *l7.Conn
	now       int64
	exchanges int
	pieces    []l7.Piece
}

func newExchanger(pieces ...l7.Piece) *exchanger {
	x := &exchanger{pieces: pieces}
	asked := []string{"traceparent", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "sw8", "content-type", "user-agent"}
	sink := &l7.Sink{Limits: l7.DefaultLimits(), Stats: &l7.Stats{}, Exchange: func(*l7.Exchange) { x.exchanges++ }}
	x.conn = l7.NewConn([]l7.Protocol{http1.New(asked, []string{"content-type", "content-length"})}, l7.TCP, l7.RoleUnknown, sink)
	return x
}

func (x *exchanger) once() {
	for _, p := range x.pieces {
		x.now += 1000
		p.Began, p.Ended = x.now, x.now+500
		x.conn.Feed(p)
	}
}

// bytes is what one exchange has.
func (x *exchanger) bytes() (n int64) {
	for _, p := range x.pieces {
		n += int64(len(p.Data))
	}
	return n
}

func requireNoAllocs(t testing.TB, x *exchanger) {
	t.Helper()
	x.once()
	require.Zero(t, testing.AllocsPerRun(1000, x.once))
}

func browserExchange() *exchanger {
	response := "HTTP/1.1 304 Not Modified\r\nServer: nginx/1.26.3\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nLast-Modified: Fri, 20 Nov 2026 16:30:00 GMT\r\n" +
		"Connection: keep-alive\r\nETag: \"673e1f28-267\"\r\nCache-Control: max-age=3600\r\n\r\n"
	return newExchanger(whole(l7.Read, 0, browserRequest), whole(l7.Write, 0, response))
}

func largeBody(size int64) []l7.Piece {
	pieces := []l7.Piece{whole(l7.Read, 0, get), whole(l7.Write, 0, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))}
	for step := int64(64 << 10); size > 0; size -= step {
		pieces = append(pieces, l7.Piece{Direction: l7.Write, Length: step})
	}
	return pieces
}

// TestExchangesAllocateNothing holds for what is usual.
func TestExchangesAllocateNothing(t *testing.T) {
	requireNoAllocs(t, browserExchange())
	requireNoAllocs(t, newExchanger(largeBody(2<<20)...))
	requireNoAllocs(t, newExchanger(whole(l7.Read, 0, get+"GET /b HTTP/1.1\r\nUser-Agent: x"), whole(l7.Read, 0, "\r\n\r\n"),
		whole(l7.Write, 0, ok+"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), whole(l7.Write, 0, "0\r\n\r\n")))
}

// TestHeldIsWhatTheHeapHas checks that what connections say to hold is what they take, by the runtime's own account.
func TestHeldIsWhatTheHeapHas(t *testing.T) {
	const many = 4000
	heap := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools keep goes with the second
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	sink := &l7.Sink{Limits: l7.DefaultLimits(), Stats: &l7.Stats{}, Exchange: func(*l7.Exchange) {}}
	protocols := []l7.Protocol{http1.New([]string{"traceparent", "user-agent"}, nil)}
	conns := make([]*l7.Conn, many)
	request, response := whole(l7.Read, 10, browserRequest), whole(l7.Write, 20, ok) // their bytes are not the connections'
	before, held := heap(), 0
	for i := range conns {
		conns[i] = l7.NewConn(protocols, l7.TCP, l7.RoleUnknown, sink)
		conns[i].Feed(request)
		conns[i].Feed(response)
		held += conns[i].Held()
	}
	require.InEpsilon(t, heap()-before, held, 0.25)
	t.Log("bytes of each:", held/many)
	runtime.KeepAlive(conns)
	require.EqualValues(t, many, sink.Stats.Exchanges)
}
