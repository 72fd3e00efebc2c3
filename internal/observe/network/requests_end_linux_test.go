// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestResponsesThatTheConnectionEnds checks that a response without a length ends with its connection, at the time of its last byte, and that
// a truncated one is reported as aborted, with the time until then.
func TestResponsesThatTheConnectionEnds(t *testing.T) {
	guest.TakesLong(t)
	const (
		pause = 60 * time.Millisecond // between the head and the body, and between the body and the end
		cut   = "GET 206 aborted"
	)
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		var took time.Duration // the longest until the last byte, as the client has it
		for head, body := range map[string]string{
			"HTTP/1.0 200 OK\r\nServer: old\r\n\r\n":              "until the end",
			"HTTP/1.1 206 Partial\r\nContent-Length: 100\r\n\r\n": "not all of it",
		} {
			took = max(took, endWith(t, pause, head, body))
		}
		w.settle()
		for _, side := range []string{"server", "client"} {
			durations := w.requestPoints("http." + side + ".request.duration")
			w.alike(map[string]uint64{"GET 200": 1, cut: 1}, counts(durations), side)
			if w.missed() > 0 {
				continue // some of the segments were not captured
			}
			for key, h := range durations {
				require.GreaterOrEqual(t, h.Min, pause.Seconds(), "%s %s: until the last byte", side, key)
				require.Less(t, h.Max, took.Seconds(), "%s %s: not until the end", side, key)
			}
			bodies := w.requestPoints("http." + side + ".response.body.size")
			require.EqualValues(t, len("until the end"), bodies["GET 200"].Sum, side)
			require.NotContains(t, bodies, cut, "its size is not known")
		}
	})
}

// endWith makes a server answer one request and end the connection, each part after a pause. It returns how long the client waited for the
// last byte.
func endWith(t *testing.T, pause time.Duration, head, body string) (took time.Duration) {
	t.Helper()
	client, server := connected(t)
	defer client.Close()
	began := time.Now()
	exchangeBytes(t, client, server, []byte("GET /end HTTP/1.1\r\nHost: a\r\n\r\n"))
	exchangeBytes(t, server, client, []byte(head))
	time.Sleep(pause)
	exchangeBytes(t, server, client, []byte(body)) // in this goroutine: the server's call has returned, too
	took = time.Since(began)
	time.Sleep(pause)
	require.NoError(t, server.Close())
	rest, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Empty(t, rest)
	return took
}

// counts returns the count of each histogram.
func counts(points map[string]*model.Histogram) map[string]uint64 {
	all := map[string]uint64{}
	for key, h := range points {
		all[key] = h.Count
	}
	return all
}

// TestResponsesReadWithTheEnd checks that a response whose last bytes are read together with the end of the connection, which TCP counts as a
// byte, is reported completely.
func TestResponsesReadWithTheEnd(t *testing.T) {
	guest.TakesLong(t)
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		for head, body := range map[string]string{
			"HTTP/1.0 200 OK\r\nServer: old\r\n\r\n":                                 "until the end",
			"HTTP/1.1 201 Created\r\nContent-Length: 3\r\nConnection: close\r\n\r\n": "all",
		} {
			client, server := connected(t)
			exchangeBytes(t, client, server, []byte("GET /end HTTP/1.1\r\nHost: a\r\n\r\n"))
			exchangeBytes(t, server, client, []byte(head))
			_, err := io.WriteString(server, body)
			require.NoError(t, err)
			require.NoError(t, server.Close())
			rest, err := io.ReadAll(client)
			require.NoError(t, err)
			require.Equal(t, body, string(rest))
			require.NoError(t, client.Close())
		}
		w.settle()
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		for _, side := range []string{"server", "client"} {
			require.Equal(t, map[string]uint64{"GET 200": 1, "GET 201": 1}, counts(w.requestPoints("http."+side+".request.duration")), side)
			bodies := w.requestPoints("http." + side + ".response.body.size")
			require.EqualValues(t, len("until the end"), bodies["GET 200"].Sum, side)
			require.EqualValues(t, len("all"), bodies["GET 201"].Sum, side)
		}
		require.Zero(t, w.loss("request_cut"))
		require.Zero(t, w.loss("request_invalid"))
	})
}

// connected are the ends of a connection.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	client, err = net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	server, err = listener.Accept()
	require.NoError(t, err)
	return client, server
}

// TestStopTakesALastLook checks that requests that have ended when the observation is stopped are reported, although their segments were not
// read yet, and that stopping and closing are sequential.
func TestStopTakesALastLook(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const rounds, times = 2, 25
	runEachWay(t, func(t *testing.T, by *way) {
		for range rounds { // the reader is at another point each time
			config := requestConfig()
			config.Journal = requests.JournalConfig{Which: requests.AllRequests, Bytes: 1 << 20}
			w := watch(t, config, by.change)
			client, server := connected(t)
			for range times {
				exchangeBytes(t, client, server, []byte("GET /last HTTP/1.1\r\nHost: a\r\n\r\n"))
				exchangeBytes(t, server, client, []byte("HTTP/1.1 204 No Content\r\n\r\n"))
			}
			require.NoError(t, w.Stop())
			require.NoError(t, client.Close())
			require.NoError(t, server.Close())
			w.report()
			logs := 0
			for _, of := range w.Logs() {
				if of.Process != nil && of.Process.ID.PID == uint32(os.Getpid()) {
					logs += len(of.Logs)
				}
			}
			require.NoError(t, w.Stop(), "it is stopped")
			if w.missed() > 0 {
				continue // some of the segments were not captured
			}
			for _, side := range []string{"server", "client"} {
				require.Equal(t, map[string]uint64{"GET 204": times}, counts(w.requestPoints("http."+side+".request.duration")), side)
			}
			require.Equal(t, 2*times, logs)
		}
	})
}
