// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// turn parts what is read from what is written in the fuzzer's input.
const turn = "\xff\xfe"

// FuzzConnection lets a server read and write anything, cut, repeated and lost at random, between exchanges that are well-formed. The
// first is reported exactly, memory stays bounded, contents are given back, and what comes after a loss in both directions is reported with its own response or with none:
// its names are plain text, so that it must be reported if its frames are found.
func FuzzConnection(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint64(1))
		f.Add(seed, uint64(2))
	}
	const last = 1<<31 - 11 // after all that there was
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		if namesStream(data, last) || namesStream(data, last+2) || namesStream(data, last+4) {
			return // it takes the place of what is held below
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		limits := l7.Limits{Line: 256, Values: 512, Head: 4096, Pipelined: 4, Streams: 8, Table: 1 << 10, Quiet: 1000, Undecided: 1 << 30, Left: 1 << 30}
		m := &mangler{t: t, rnd: rnd, l: listenWithin(limits), client: newEnd(t), server: newEnd(t)}
		const room = 1 << 10
		contents := &l7.Contents{Wanted: func(_, _ []byte) uint64 { return 1 }, Body: 64, Head: 64, Calls: 2, Left: room}
		if seed%2 == 0 {
			m.l.keepContents(contents, m.l.sink.Exchange)
		}
		m.client.hello()
		m.server.settings()
		m.exchange(1, "/first", "201")
		require.Equal(t, []any{"GET", "/first", 201, int64(0), int64(3), l7.Complete}, brief(m.l.reported[0]))

		for i, part := range bytes.Split(data, []byte(turn)) {
			m.mangle(l7.Direction(i%2), part)
			require.Less(t, m.l.Held(), 64<<10)
		}
		m.l.reported = nil
		m.l.Expire(m.l.now + 1)
		m.lost = [2]bool{true, true}
		m.exchange(last, "/second", "202")
		m.exchange(last+2, "/third", "203")
		m.giveUp(last+4, "/fourth")
		require.Less(t, m.l.Held(), 64<<10)
		require.Equal(t, room, contents.Left, "what was kept of contents was given back")
		own := map[string]int{"/second": 202, "/third": 203, "/fourth": 0}
		seen := map[string]int{}
		for _, x := range m.l.reported {
			if status, ours := own[x.Target]; ours {
				seen[x.Target]++
				require.Contains(t, []int{0, status}, x.Status, "%s has another's response", x.Target)
			}
		}
		require.LessOrEqual(t, seen["/second"], 1)
		require.Equal(t, 1, seen["/third"], "%+v", m.l.reported)
		require.Equal(t, 1, seen["/fourth"], "%+v", m.l.reported)
	})
}

// namesStream reports whether the head of a frame of this stream may be in the data; the first bit of its identifier is reserved
// (RFC 9113, section 4.1).
func namesStream(data []byte, id uint32) bool {
	return bytes.Contains(data, binary.BigEndian.AppendUint32(nil, id)) || bytes.Contains(data, binary.BigEndian.AppendUint32(nil, id|1<<31))
}

// seeds are what connections say, with what is hostile.
func seeds(t testing.TB) [][]byte {
	client, server := newEnd(t), newEnd(t)
	client.get(3, "/a").headers(5, false, ":method", "POST", ":scheme", "http", ":path", "/grpc", "content-type", "application/grpc", "grpc-timeout", "1S")
	client.data(5, true, "\x00\x00\x00\x00\x03abc")
	server.headers(3, false, ":status", "103").headers(3, false, ":status", "200").data(3, true, "abc")
	server.headers(5, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "4")
	usual := append(append(client.take(), turn...), server.take()...)

	bomb := client.headers(7, false, "x-request", string(bytes.Repeat([]byte("b"), 900))).take()
	require.NoError(t, client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 7, BlockFragment: bytes.Repeat([]byte{0xbe}, 4000)}))
	bomb = append(bomb, client.take()...)

	for range 20 {
		require.NoError(t, client.WriteContinuation(7, false, bytes.Repeat([]byte{0x82}, 100)))
	}
	flood := client.take()

	for id := uint32(9); id < 60; id += 2 {
		client.get(id, "/rapid")
		require.NoError(t, client.WriteRSTStream(id, xhttp2.ErrCodeCancel))
	}
	rapid := client.take()

	require.NoError(t, server.WritePushPromise(xhttp2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true, PadLength: 9, BlockFragment: []byte{0x82, 0x84}}))
	require.NoError(t, server.WriteGoAway(1, xhttp2.ErrCodeNo, nil))
	require.NoError(t, server.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxFrameSize, Val: 1 << 24}, xhttp2.Setting{ID: xhttp2.SettingHeaderTableSize, Val: 1<<32 - 1}))
	odd := append([]byte(turn), server.take()...)

	return [][]byte{usual, bomb, flood, rapid, odd, []byte("\x00\x00\x05\x01\x2d\x00\x00\x00\x03\xff\x80\x00\x00\x00"), []byte(xhttp2.ClientPreface), nil}
}

// mangler feeds a connection.
type mangler struct {
	t              testing.TB
	rnd            *rand.Rand
	l              *listener
	client, server *end
	lost           [2]bool
}

// exchange feeds a well-formed one, whose fields refer to nothing, in pieces that begin with frames.
func (m *mangler) exchange(id uint32, target, status string) {
	request := append([]byte{0x82, 0x86, 0x04, byte(len(target))}, target...)
	require.NoError(m.t, m.client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: request, EndStream: true, EndHeaders: true}))
	m.feed(l7.Read, m.client.take(), 0)
	response := append([]byte{0x08, 3}, status...)
	require.NoError(m.t, m.server.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: response, EndHeaders: true}))
	m.feed(l7.Write, m.server.take(), 0)
	m.feed(l7.Write, m.server.data(id, true, "abc").take(), 0)
}

// giveUp feeds a request that its client gives up by a reset, by the end of the connection, or both; and what comes for it later.
func (m *mangler) giveUp(id uint32, target string) {
	request := append([]byte{0x82, 0x86, 0x04, byte(len(target))}, target...)
	require.NoError(m.t, m.client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: request, EndStream: true, EndHeaders: true}))
	m.feed(l7.Read, m.client.take(), 0)
	if m.rnd.IntN(2) == 0 {
		require.NoError(m.t, m.client.WriteRSTStream(id, xhttp2.ErrCodeCancel))
		m.feed(l7.Read, m.client.take(), 0)
	}
	if m.rnd.IntN(2) == 0 {
		m.l.Ending(l7.ClosedRemotely, m.l.now)
		m.l.GiveUp(m.l.now + 1)
	}
	if m.rnd.IntN(2) == 0 {
		m.l.Close()
		return
	}
	reset := len(m.l.reported)
	if reset == 0 || m.l.reported[reset-1].Target != target {
		m.l.Close()
		return
	}
	require.NoError(m.t, m.server.WriteHeaders(xhttp2.HeadersFrameParam{
		StreamID: id, BlockFragment: append([]byte{0x08, 3}, "204"...), EndHeaders: true, EndStream: true,
	}))
	m.feed(l7.Write, m.server.take(), 0)
	require.Len(m.t, m.l.reported, reset, "what comes for a request that was given up")
	m.l.Close()
}

// mangle feeds the data as bad days have it.
func (m *mangler) mangle(d l7.Direction, data []byte) {
	for len(data) > 0 {
		n := 1 + m.rnd.IntN(len(data))
		switch m.rnd.IntN(8) {
		case 0:
			m.lost[d] = true
		case 1: // repeated
			m.feed(d, data[:n], 0)
			m.feed(d, data[:n], 0)
		case 2: // cut
			m.feed(d, data[:m.rnd.IntN(n)], int64(n))
		default:
			m.feed(d, data[:n], 0)
		}
		data = data[n:]
	}
	if m.rnd.IntN(4) == 0 {
		m.l.Expire(m.l.now - 50)
	}
}

func (m *mangler) feed(d l7.Direction, data []byte, more int64) {
	m.l.now += 10
	p := whole(d, m.l.now, bytes.Clone(data))
	p.Length += more
	if m.lost[d] {
		p.Lost, p.LostAt = l7.LostUnknown, m.l.now-7
		m.lost[d] = false
	}
	m.l.Feed(p)
	for i := range p.Data {
		p.Data[i] = 0xff
	}
}
