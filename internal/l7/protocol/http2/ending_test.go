// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// TestHowCallsEndWithTheirConnection holds which status a call has whose connection ends, and its error type on both sides.
func TestHowCallsEndWithTheirConnection(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		timeout string
		cause   l7.Cause
		after   int64 // ns
		status  string
		failed  string
	}{
		{"1S", l7.ClosedRemotely, 10 * ms, "CANCELLED", ""}, // the client of this server
		{"1S", l7.ClosedRemotely, 999 * ms, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"},
		{"1S", l7.ClosedLocally, 10 * ms, "UNAVAILABLE", "UNAVAILABLE"},
		{"", l7.TimedOut, 10 * ms, "UNAVAILABLE", "UNAVAILABLE"},
		{"1S", l7.CauseUnknown, 10 * ms, "", "no_response"},
	} {
		p := greet(t)
		fields := []string{":method", "POST", ":scheme", "http", ":path", "/s/M", "content-type", "application/grpc"}
		if c.timeout != "" {
			fields = append(fields, "grpc-timeout", c.timeout)
		}
		p.client.headers(1, true, fields...)
		p.pass()
		at := p.now + c.after
		p.Ending(c.cause, at)
		p.Closed(at + ms)
		p.Close()
		require.Len(t, p.reported, 1)
		x := p.reported[0]
		require.Equal(t, []any{c.status, c.failed, l7.Unanswered}, []any{x.RPCStatus, x.ErrorType, x.Outcome}, "%+v", c)
		require.Equal(t, []int64{at}, p.ended)
	}
}

// TestStreamsAreGivenUpOnce checks that a stream which was reset counts once, as long as it lasted, whatever follows for it; and that one of
// which the response has begun lasts until the reset, too.
func TestStreamsAreGivenUpOnce(t *testing.T) {
	p := greet(t)
	p.client.get(1, "/a").get(3, "/b")
	p.server.headers(3, false, ":status", "200").data(3, false, "abc")
	p.pass()
	p.now += 1000
	require.NoError(t, p.client.WriteRSTStream(1, xhttp2.ErrCodeCancel))
	require.NoError(t, p.client.WriteRSTStream(3, xhttp2.ErrCodeCancel))
	p.pass()
	reset := p.now
	p.server.headers(1, false, ":status", "200").data(1, true, "late").data(3, true, "late")
	p.pass()
	require.NoError(t, p.client.WriteRSTStream(1, xhttp2.ErrCodeCancel))
	p.pass()
	p.Ending(l7.ClosedRemotely, p.now)
	p.GiveUp(p.now + 1)
	p.Close()
	p.requireBriefs(t, []any{"GET", "/a", 0, 0, 0, l7.Unanswered}, []any{"GET", "/b", 200, 0, 3, l7.Aborted})
	require.Equal(t, []string{"client_closed", "aborted"}, []string{p.reported[0].ErrorType, p.reported[1].ErrorType})
	for _, at := range p.ended {
		require.InDelta(t, reset, at, 20)
	}
}
