// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// ends makes one end of a connection end it.
func (f *followed) ends(p *segment, by bindings.NetworkNetworkEnd) {
	f.at += time.Millisecond
	p.Kind, p.Began, p.Ended = uint8(bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_ENDING), uint64(f.at), uint64(f.at)
	p.Position = uint32(by)
	f.record(p, nil)
}

// endingsOf notes each request with its error type and duration.
func endingsOf(to *[]string) func(uint32, *l7.Exchange) {
	return func(_ uint32, e *l7.Exchange) {
		if string(httpexchange.Of(e).Path) == "/other" {
			return
		}
		ns, timed := requests.Duration(e)
		*to = append(*to, fmt.Sprint(string(httpexchange.Of(e).Path), " ", httpexchange.Of(e).Status, " ", e.ErrorType, " ", time.Duration(ns), " ", timed))
	}
}

const (
	requestText  = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
	responseText = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
)

// TestServersThatNeverClose checks that a request whose client has closed counts after a while although its server keeps the connection,
// once, whatever follows.
// whatever follows.
func TestServersThatNeverClose(t *testing.T) {
	var got []string
	var answers []Answer
	f := followTCP(Config{exchanged: endingsOf(&got), Answered: func(a Answer) {
		if string(a.Path) == "/a" {
			a.Path = nil
			answers = append(answers, a)
		}
	}})
	one := func() *segment { return &segment{Sock: 1} }
	f.recordTextOf(one(), l7.Read, requestText)
	f.ends(one(), bindings.NetworkNetworkEndNETWORK_END_REMOTE)
	f.pass(endedFor - 2*time.Millisecond)
	require.Empty(t, got, "its server may answer")
	f.pass(endedFor)
	want := []string{"/a 0 client_closed 1ms true"}
	require.Equal(t, want, got)
	require.Equal(t, []Answer{{
		Subject: answers[0].Subject, Unanswered: true, Took: time.Millisecond, Timed: true, Ended: int64(f.at),
	}}, answers, "in the second in which it is found out: policies look at the last ones")
	f.recordTextOf(one(), l7.Write, responseText)
	f.pass(quietFor * 2)
	f.recordTextOf(one(), l7.Write, responseText)
	require.Contains(t, f.streams, streamID{sock: 1}, "or what follows would begin anew")
	f.recordClose(one())
	require.Equal(t, want, got)
	require.NotContains(t, f.streams, streamID{sock: 1})
}

// TestResponsesToClientsThatAreGone checks that a response counts that comes soon after its client has closed the connection, or its
// direction of it.
func TestResponsesToClientsThatAreGone(t *testing.T) {
	var got []string
	f := followTCP(Config{exchanged: endingsOf(&got)})
	one := func() *segment { return &segment{Sock: 1} }
	f.recordTextOf(one(), l7.Read, requestText)
	f.ends(one(), bindings.NetworkNetworkEndNETWORK_END_REMOTE)
	f.pass(time.Second)
	f.recordTextOf(one(), l7.Write, responseText)
	f.recordClose(one())
	require.Len(t, got, 1)
	require.Contains(t, got[0], "/a 200  1.0")
}

// TestHowConnectionsEnd checks the error and the end of a request without a response, by which end ended its connection.
func TestHowConnectionsEnd(t *testing.T) {
	local, remote, timeout, unknown := bindings.NetworkNetworkEndNETWORK_END_LOCAL, bindings.NetworkNetworkEndNETWORK_END_REMOTE,
		bindings.NetworkNetworkEndNETWORK_END_TIMEOUT, bindings.NetworkNetworkEndNETWORK_END_UNKNOWN
	for _, c := range []struct {
		direction l7.Direction // of the request
		by        bindings.NetworkNetworkEnd
		want      string
	}{
		{l7.Write, local, "/a 0 timeout 1ms true"}, {l7.Write, remote, "/a 0 no_response 1ms true"},
		{l7.Write, timeout, "/a 0 timeout 1ms true"}, {l7.Write, unknown, "/a 0 no_response 1ms true"},
		{l7.Read, remote, "/a 0 client_closed 1ms true"}, {l7.Read, local, "/a 0 no_response 1ms true"},
		{l7.Read, timeout, "/a 0 timeout 1ms true"}, {l7.Read, unknown, "/a 0 no_response 1ms true"},
	} {
		var got []string
		f := followTCP(Config{exchanged: endingsOf(&got)})
		f.recordTextOf(&segment{Sock: 1}, c.direction, requestText)
		f.ends(&segment{Sock: 1}, c.by)
		f.at += time.Second // until the other end has acknowledged it
		f.recordClose(&segment{Sock: 1})
		require.Equal(t, []string{c.want}, got, "%+v", c)
	}
	t.Run("only the close is known", func(t *testing.T) {
		var got []string
		f := followTCP(Config{exchanged: endingsOf(&got)})
		f.recordTextOf(&segment{Sock: 1}, l7.Write, requestText)
		f.recordClose(&segment{Sock: 1})
		require.Equal(t, []string{"/a 0 no_response 1ms true"}, got)
	})
	t.Run("the server closed before", func(t *testing.T) {
		var got []string
		f := followTCP(Config{exchanged: endingsOf(&got)})
		f.recordTextOf(&segment{Sock: 1}, l7.Write, requestText)
		f.recordTextOf(&segment{Sock: 1}, l7.Read, responseText)
		f.ends(&segment{Sock: 1}, remote)
		f.recordTextOf(&segment{Sock: 1}, l7.Write, requestText)
		f.recordClose(&segment{Sock: 1})
		require.Equal(t, []string{"/a 200  1ms true", "/a 0 no_response 1ms true"}, got, "the second lasts until its socket is closed")
	})
	t.Run("it is forgotten", func(t *testing.T) {
		var got []string
		f := followTCP(Config{exchanged: endingsOf(&got)})
		f.recordTextOf(&segment{Sock: 1}, l7.Write, requestText)
		f.pass(13 * time.Hour)
		require.Equal(t, []string{"/a 0 no_response 0s false"}, got)
	})
}

// TestStopCountsWhatHasEnded checks that the end of an observation counts requests whose client has closed, and none that is in flight.
func TestStopCountsWhatHasEnded(t *testing.T) {
	var got []string
	f := followTCP(Config{exchanged: endingsOf(&got)})
	f.recordTextOf(&segment{Sock: 1}, l7.Read, requestText)
	f.recordTextOf(&segment{Sock: 2}, l7.Read, "GET /poll HTTP/1.1\r\nHost: h\r\n\r\n")
	f.ends(&segment{Sock: 1}, bindings.NetworkNetworkEndNETWORK_END_REMOTE)
	f.giveUpAll()
	require.Equal(t, []string{"/a 0 client_closed 2ms true"}, got)
}
