// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// scripted are records that end as a test says, one way after the other.
type scripted struct {
	ends    chan error
	flushed chan struct{}
}

func (s *scripted) SetDeadline(time.Time) {}

func (s *scripted) ReadInto(*ringbuf.Record) error {
	select {
	case err := <-s.ends:
		return err
	case <-s.flushed:
		return ringbuf.ErrFlushed
	}
}

func (s *scripted) Flush() error {
	close(s.flushed)
	return nil
}

func (s *scripted) Close() error { return nil }

// TestUnreadRingIsReported checks that an error of reading the ring is returned once and counted, and that reading continues.
func TestUnreadRingIsReported(t *testing.T) {
	broken := errors.New("broken")
	s := &scripted{ends: make(chan error), flushed: make(chan struct{})}
	c := newCapture(Config{}, &ring{records: s}, &table{})
	c.ended.Go(c.run)
	s.ends <- broken
	s.ends <- os.ErrDeadlineExceeded
	s.ends <- os.ErrDeadlineExceeded
	require.ErrorIs(t, c.ring.failure(), broken)
	require.NoError(t, c.ring.failure())
	for _, l := range c.losses() {
		if l.Reason == "buffer_unread" {
			require.EqualValues(t, 1, l.Count)
		} else {
			require.Zero(t, l.Count, l.Reason)
		}
	}
	s.ends <- broken
	require.NoError(t, c.close(), "while it waits to try again")
}

// flowing is a reader that returns so many records without a pause, and then none.
type flowing struct {
	left int
	raw  []byte
}

func (f *flowing) SetDeadline(time.Time) {}
func (f *flowing) Flush() error          { return nil }
func (f *flowing) Close() error          { return nil }
func (f *flowing) ReadInto(r *ringbuf.Record) error {
	if f.left == 0 {
		return os.ErrDeadlineExceeded
	}
	f.left--
	r.RawSample, r.Remaining = f.raw, 1
	return nil
}

// TestWaitingPiecesAreBounded checks that segments that arrive faster than they may be passed on take bounded memory.
func TestWaitingPiecesAreBounded(t *testing.T) {
	const size, records = 4 << 10, 10_000
	c := newCapture(Config{BufferBytes: minBuffer}, &ring{records: &flowing{records, make([]byte, segmentHeadBytes+size)}}, &table{})
	require.NoError(t, c.read())
	require.Less(t, c.waiting.held(), 3*minWaiting)
	require.Less(t, c.waiting.size(), minWaiting+2*size)
}

// TestSmallBuffer checks that of bursts that fill a buffer some is reported, and none of it twice.
func TestSmallBuffer(t *testing.T) {
	guest.SameOnEveryKernel(t)
	burstsFill(t, func(*testing.T, uint64, uint64, ...any) {})
}

// TestMeasureSmallBuffer checks that the reader is woken each time that a buffer fills, not once per interval: of bursts of most of a buffer,
// ten in an interval, most is reported. A busy host may lose some; woken once per interval the reader sees a quarter.
func TestMeasureSmallBuffer(t *testing.T) {
	burstsFill(t, func(t *testing.T, reported, all uint64, message ...any) {
		t.Helper()
		require.GreaterOrEqual(t, reported, all*2/3, message...)
	})
}

// burstsFill makes bursts of requests; judge judges how many of all were reported.
func burstsFill(t *testing.T, judge func(t *testing.T, reported, all uint64, message ...any)) {
	const (
		buffer  = 64 << 10
		bursts  = 100
		each    = 5 // requests with a head of 4 KiB, which both sides have read
		pause   = readInterval / 10
		request = "GET / HTTP/1.1\r\nX-Padding: "
	)
	runEachWay(t, func(t *testing.T, by *way) {
		small := requestConfig()
		small.BufferBytes, small.interval = buffer, readInterval
		w := watch(t, small, by.change)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		client, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		defer client.Close()
		server, err := listener.Accept()
		require.NoError(t, err)
		defer server.Close()
		head := append([]byte(request), bytes.Repeat([]byte("p"), captureBytes-len(request))...)
		copy(head[len(head)-4:], "\r\n\r\n")
		require.Greater(t, bursts*each*2*len(head), 10*buffer)
		for range bursts {
			for range each {
				exchangeBytes(t, client, server, head)
				exchangeBytes(t, server, client, []byte("HTTP/1.1 204 No Content\r\n\r\n"))
			}
			time.Sleep(pause)
		}
		w.settle()
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		for _, side := range []string{"client", "server"} {
			var reported uint64
			for _, n := range counts(w.requestPoints("http." + side + ".request.duration")) {
				reported += n
			}
			require.Positive(t, reported, "%s: %v", side, w.Losses())
			judge(t, reported, bursts*each, "%s: %v", side, w.Losses())
			require.LessOrEqual(t, reported, uint64(bursts*each), side)
		}
	})
}

// exchangeBytes makes one end of a connection write bytes and the other one read them.
func exchangeBytes(t *testing.T, from, to net.Conn, bytes []byte) {
	t.Helper()
	_, err := from.Write(bytes)
	require.NoError(t, err)
	_, err = io.ReadFull(to, make([]byte, len(bytes)))
	require.NoError(t, err)
}
