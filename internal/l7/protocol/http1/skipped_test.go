// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// TestSkippedRequests checks that a skipped request is paired with its response and has its tag, and that no request that is captured has one,
// whatever it looks like.
func TestSkippedRequests(t *testing.T) {
	const response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	type exchange struct {
		tag    uint64
		method string
		status int
		first  int64
	}
	var got []exchange
	sink := &l7.Sink{Limits: l7.DefaultLimits(), Stats: &l7.Stats{}, Exchange: func(e *l7.Exchange) {
		operation, ok := e.Operation.(*httpexchange.Exchange)
		require.True(t, ok)
		got = append(got, exchange{e.Tag, operation.Method, operation.Status, e.Request.First})
	}}
	c := l7.NewConn([]l7.Protocol{http1.New(nil, nil)}, l7.TCP, l7.RoleServer, sink)
	feed := func(direction l7.Direction, at int64, text string) {
		c.Feed(l7.Piece{Direction: direction, Began: at, Ended: at, Length: int64(len(text)), Data: []byte(text)})
	}
	c.Skip(l7.Piece{Direction: l7.Read, Began: 10, Ended: 10}, l7.Skipped{Tag: 7})
	feed(l7.Write, 11, response+"ok")
	c.Skip(l7.Piece{Direction: l7.Read, Began: 20, Ended: 20}, l7.Skipped{Head: true, Tag: 8})
	feed(l7.Write, 21, response)
	feed(l7.Read, 30, "GET *00020002 HTTP/1.1\r\n\r\n")
	feed(l7.Write, 31, response+"ok")
	c.Skip(l7.Piece{Direction: l7.Read, Began: 40, Ended: 40}, l7.Skipped{})
	c.Close()
	require.Equal(t, []exchange{{7, "GET", 200, 10}, {8, "HEAD", 200, 20}, {0, "GET", 200, 30}, {0, "GET", 0, 40}}, got)
}
