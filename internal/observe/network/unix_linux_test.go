// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// TestUnixSocketsEnd checks that the end of a connection through a Unix socket is reported: a response without a length ends with it, a
// request without a response is reported then, and both for the side that ends it and for the other one. What ends only one direction ends no
// request.
func TestUnixSocketsEnd(t *testing.T) {
	guest.TakesLong(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		path := filepath.Join(t.TempDir(), "socket")
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		require.NoError(t, err)
		defer listener.Close()
		begin := func(request string) (client, server *net.UnixConn) {
			client, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path})
			require.NoError(t, err)
			server, err = listener.AcceptUnix()
			require.NoError(t, err)
			exchangeBytes(t, client, server, []byte(request))
			return client, server
		}
		const head = "HTTP/1.0 200 OK\r\nServer: old\r\n\r\n"

		client, server := begin("GET /until-the-end HTTP/1.0\r\nHost: a\r\n\r\n")
		exchangeBytes(t, server, client, []byte(head))
		exchangeBytes(t, server, client, []byte("some content"))
		require.NoError(t, server.Close())
		nothingFollows(t, client)
		require.NoError(t, client.Close())

		client, server = begin("GET /half HTTP/1.0\r\nHost: a\r\n\r\n")
		require.NoError(t, client.CloseWrite())
		nothingFollows(t, server)
		exchangeBytes(t, server, client, []byte(head))
		require.NoError(t, server.Close())
		nothingFollows(t, client)
		require.NoError(t, client.Close())

		client, server = begin("GET /given-up HTTP/1.0\r\nHost: a\r\n\r\n")
		require.NoError(t, client.Close())
		nothingFollows(t, server)
		require.NoError(t, server.Close())

		want := map[string]int{}
		for _, role := range []string{"client", "server"} {
			want[role+" GET /until-the-end 200"], want[role+" GET /half 200"], want[role+" GET /given-up 0"] = 1, 1, 1
		}
		o.wait(t, w, want)
		if w.missed() == 0 {
			require.EqualValues(t, len("some content"), o.bytesOfBodies("client GET /until-the-end 200"))
		}
	})
}

// nothingFollows checks that nothing follows on a connection.
func nothingFollows(t *testing.T, conn net.Conn) {
	t.Helper()
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, rest)
}

// TestUnixSocketsAreForgotten checks that a connection is forgotten only with its socket, and with the next socket at its address if its end
// was lost.
func TestUnixSocketsAreForgotten(t *testing.T) {
	var reported []string
	f := followUnix(Config{exchanged: exchangedInShort(&reported)})
	const get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
	f.recordTextOf(&segment{Sock: 7, Stream: 1}, l7.Read, get)
	f.recordTextOf(&segment{Sock: 8, Stream: 2}, l7.Read, get)
	f.recordClose(&segment{Sock: 7})
	f.recordClose(&segment{Sock: 9}) // another socket's
	require.Len(t, f.streams, 1)
	f.recordTextOf(&segment{Sock: 8, Stream: 3}, l7.Read, get)
	require.Len(t, f.streams, 1)
	f.recordClose(&segment{Sock: 8, Stream: 3})
	require.Empty(t, f.streams)
	require.Empty(t, f.unix)
	require.Equal(t, []string{"GET /a 0 no_response", "GET /a 0 no_response", "GET /a 0 no_response"}, reported)
}

// TestConnectionsOfProcessesThatEnded checks that a connection whose end was lost is forgotten soon once its series belongs to another one.
func TestConnectionsOfProcessesThatEnded(t *testing.T) {
	f := followTCP(Config{})
	f.recordText(1, l7.Read, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
	f.pass(quietFor * 2)
	require.Contains(t, f.streams, streamID{sock: 1})
	f.slots.items[0].Generation++
	f.sweep(uint64(f.at))
	require.NotContains(t, f.streams, streamID{sock: 1})
}

// TestUnixSocketsLoseSegmentsOfADirection checks that of a Unix socket, which has no positions, a segment that did not fit in the buffer is
// missing in its own direction and in no other: the response to a request whose content was lost is reported with it. What follows is counted
// without its name: the loss shows with the next request only.
func TestUnixSocketsLoseSegmentsOfADirection(t *testing.T) {
	guest.TakesLong(t)
	const body, most = 300, 10000
	runEachWay(t, func(t *testing.T, by *way) {
		var gate sync.Mutex
		var rounds atomic.Int64
		config := requestConfig()
		config.BufferBytes = 64 << 10
		config.Charge = func(work func()) { rounds.Add(1); gate.Lock(); defer gate.Unlock(); work() }
		o := overhear(&config)
		w := watch(t, config, by.change)
		posts := func(path string, length int) *talk {
			c := newUnixTalk(t)
			c.asks(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: shop.example\r\nContent-Length: %d\r\n\r\n", path, length))
			return c
		}
		lost := func() uint64 {
			require.NoError(t, w.readLosses())
			return w.loss("buffer_full")
		}
		filler, c := posts("/filler", body*most), posts("/1", body)
		w.handed()
		gate.Lock()
		before := rounds.Load()
		require.Eventually(t, func() bool { return rounds.Load() > before }, time.Minute, time.Millisecond, "the reader waits for the gate")
		for range most {
			filler.asks(strings.Repeat("f", 1))
			if lost() > 0 {
				break
			}
		}
		lostBefore := lost()
		require.Positive(t, lostBefore, "the buffer is full")
		c.asks(strings.Repeat("b", body))
		after := lost()
		gate.Unlock()
		w.handed()
		c.answers("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
		c.asks("GET /2 HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		c.answers("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
		c.end()
		filler.end()
		require.EqualValues(t, 2, after-lostBefore, "what was written and what was read")
		want := map[string]int{}
		for _, role := range []string{"client", "server"} {
			want[role+" POST /1 201"], want[role+"   202"], want[role+" POST /filler 0"] = 1, 1, 1
		}
		o.wait(t, w, want)
	})
}

// newUnixTalk connects two Unix sockets with each other.
func newUnixTalk(t *testing.T) *talk {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "socket")})
	require.NoError(t, err)
	defer listener.Close()
	client, err := net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr))
	require.NoError(t, err)
	server, err := listener.AcceptUnix()
	require.NoError(t, err)
	return &talk{t, client, server}
}
