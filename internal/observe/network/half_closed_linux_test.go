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
)

// countEachWanted runs a test for each way in which policies need requests to a path, by each way to observe the kernel.
func countEachWanted(t *testing.T, path string, test func(t *testing.T, n *counter)) {
	t.Helper()
	runEachWay(t, func(t *testing.T, by *way) {
		n := count(t, requestConfig(), by, os.Getpid(), Wanted{})
		n.all.paths = []string{path}
		paths := []string{path}
		for name, wanted := range map[string]Wanted{"reported": {Reported: paths}, "counted": {Counted: paths}, "begun": {Begun: paths}} {
			t.Run(name, func(t *testing.T) {
				n.t = t
				require.NoError(t, n.paths.Set(uint32(os.Getpid()), wanted))
				test(t, n)
			})
		}
	})
}

// requireCount waits until so many requests to the path were counted since before.
func (n *counter) requireCount(t *testing.T, path string, before tally, requests, errors uint64, name string) {
	t.Helper()
	enough := func() bool {
		n.handed()
		n.take(t)
		return n.all.ofPath(path).requests-before.requests >= requests || n.missed() > 0
	}
	require.Eventually(t, enough, time.Minute, 5*time.Millisecond, name)
	n.settle()
	n.take(t)
	if n.exact() {
		got := n.all.ofPath(path)
		require.Equal(t, []uint64{requests, errors}, []uint64{got.requests - before.requests, got.errors - before.errors}, name)
	}
}

// TestRequestsOfHalfClosedConnections checks that policies count requests whose client has only shut down its sending direction by their
// responses, each by its own, and as failed if there are none.
func TestRequestsOfHalfClosedConnections(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const answer, failure = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
	pay, other := getting("/pay"), getting("/other")
	cases := map[string]struct {
		requests, answers []string
		want, errors      uint64
	}{
		"one":                         {[]string{pay}, []string{answer}, 1, 0},
		"two":                         {[]string{pay, pay}, []string{answer, failure}, 2, 1},
		"the first is not wanted":     {[]string{other, pay}, []string{failure, answer}, 1, 0},
		"the last is not wanted":      {[]string{pay, other}, []string{answer, failure}, 1, 0},
		"three":                       {[]string{pay, pay, pay}, []string{failure, answer, answer}, 3, 1},
		"two without a response":      {[]string{pay, pay}, nil, 2, 2},
		"the last without a response": {[]string{pay, pay}, []string{answer}, 2, 1},
	}
	countEachWanted(t, "/pay", func(t *testing.T, n *counter) {
		for name, of := range cases {
			before := n.all.ofPath("/pay")
			c := newTalk(t)
			c.asks(other) // the connection is known
			c.answers(answer)
			for _, request := range of.requests {
				c.asks(request)
			}
			require.NoError(t, c.client.(*net.TCPConn).CloseWrite())
			_, err := c.server.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			for _, response := range of.answers {
				c.answers(response)
			}
			require.NoError(t, c.server.Close())
			require.NoError(t, c.client.Close())
			n.requireCount(t, "/pay", before, of.want, of.errors, name)
		}
	})
}
