// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package hosted

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	protocolhttp1 "github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	protocolhttp2 "github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http2"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/recording"
)

const (
	read    = bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_READ
	write   = bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_WRITE
	server  = bindings.NetworkNetworkRoleNETWORK_SERVER
	windows = 4096 // network.capture_bytes by default
)

// recordings have what servers that others wrote have read and written, and what their clients counted: see internal/l7/protocol.
const recordings = "../../internal/l7/protocol/*/testdata/*.txt"

// parsed are the exchanges that user space makes of what the capture reports.
type parsed struct {
	sink      l7.Sink
	stats     l7.Stats
	exchanges []string
}

func newParsed() *parsed {
	p := &parsed{}
	p.sink = l7.Sink{Limits: l7.DefaultLimits(), Stats: &p.stats, Exchange: func(e *l7.Exchange) {
		h := httpexchange.Of(e)
		p.exchanges = append(p.exchanges, strings.TrimLeft(fmt.Sprintf("%s %s %d %d", h.Method, h.Target, h.Status, e.Response.Body), " "))
	}}
	return p
}

func (p *parsed) connection() *l7.Conn {
	return l7.NewConn([]l7.Protocol{protocolhttp1.New(nil, nil), protocolhttp2.New(nil, nil)}, l7.TCP, l7.RoleServer, &p.sink)
}

// feed parses records of transfers.
func feed(c *l7.Conn, records []record) {
	for i := range records {
		r := &records[i]
		if r.Kind > uint8(write) {
			continue
		}
		lost := int64(0)
		if r.Lost != 0 {
			lost = l7.LostUnknown
		}
		c.Feed(l7.Piece{Direction: l7.Direction(r.Kind), Began: int64(r.Began), Ended: int64(r.Ended), Length: int64(r.Length), Data: r.data, Lost: lost})
	}
}

// TestRecordedConversations checks that of what real servers read and wrote the capture reports enough for user space to see each exchange
// that their clients counted: as the server transferred it, and cut into transfers at other places.
func TestRecordedConversations(t *testing.T) {
	path := compile(t)
	files, err := filepath.Glob(recordings)
	require.NoError(t, err)
	require.Len(t, files, 7)
	for _, file := range files {
		for cut, pieces := range map[string]func(*rand.Rand, []byte) [][]byte{
			"as transferred":        func(_ *rand.Rand, data []byte) [][]byte { return [][]byte{data} },
			"each in several calls": cutAnywhere,
		} {
			t.Run(filepath.Base(file)+", "+cut, func(t *testing.T) {
				steps, want, err := recording.File(file)
				require.NoError(t, err)
				h, p, random := start(t, path, windows), newParsed(), rand.New(rand.NewPCG(1, 2))
				// One connection after the other: the host has one socket.
				for _, one := range connections(steps) {
					h.begin(server)
					c := p.connection()
					for _, s := range one {
						kind := read
						if s.Mark == recording.Write {
							kind = write
						}
						for _, data := range pieces(random, []byte(s.Text)) {
							feed(c, h.transfer(kind, len(data), data))
						}
					}
					feed(c, h.end())
					c.Close()
				}
				require.NotEmpty(t, want)
				require.ElementsMatch(t, want, p.exchanges)
			})
		}
	}
}

// connections sorts transfers by connection, in the order of their beginnings.
func connections(steps []recording.Step) (list [][]recording.Step) {
	number := map[string]int{}
	for _, s := range steps {
		switch s.Mark {
		case recording.Begin:
			number[s.Connection] = len(list)
			list = append(list, nil)
		case recording.Read, recording.Write:
			i := number[s.Connection]
			list[i] = append(list[i], s)
		}
	}
	return list
}

// cutAnywhere cuts into transfers of 16 bytes and more: the protocol is not recognised by shorter transfers.
func cutAnywhere(random *rand.Rand, data []byte) (pieces [][]byte) {
	for len(data) > 0 {
		n := min(len(data), 16+random.IntN(200))
		pieces = append(pieces, data[:n])
		data = data[n:]
	}
	return pieces
}

// TestSeveralBuffers checks that a request in several buffers is reported as one in a single buffer.
func TestSeveralBuffers(t *testing.T) {
	request := []byte("POST /pay HTTP/1.1\r\nHost: shop\r\nContent-Length: 4\r\n\r\nbody")
	h := start(t, compile(t), windows)
	h.begin(server)
	whole := h.transfer(read, len(request), request)
	require.Len(t, whole, 1)
	h.begin(server)
	parts := h.transfer(read, len(request), request[:1], request[1:7], nil, request[7:40], request[40:])
	require.Len(t, parts, 1)
	require.Equal(t, whole[0].data, parts[0].data)
	require.Equal(t, uint32(len(request)), parts[0].Length)
}

// TestUnreadableMemory checks that of a transfer whose memory cannot be read the length is reported, and nothing else.
func TestUnreadableMemory(t *testing.T) {
	h := start(t, compile(t), windows)
	h.begin(server)
	require.Len(t, h.transfer(read, 18, []byte("GET / HTTP/1.1\r\n\r\n")), 1)
	got := h.transfer(write, 5000, []byte("HTTP")) // 4 of 5,000 bytes are mapped
	require.Len(t, got, 1)
	require.Equal(t, uint32(5000), got[0].Length)
	require.Empty(t, got[0].data)
}

// FuzzCapture checks that whatever a connection carries, in whatever transfers, nothing is read beyond them (by the sanitizers), each
// record has bytes of its transfer from where it says that it is, and the records of a transfer have no more bytes than were transferred.
func FuzzCapture(f *testing.F) {
	path := compile(f)
	for _, file := range must(filepath.Glob(recordings)) {
		text := must(os.ReadFile(file))
		f.Add(text[:min(len(text), 2000)], uint64(1))
	}
	f.Add([]byte("GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nPOST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), uint64(7))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x00\x01\x00\x00\x00\x01"), uint64(3))
	f.Add([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), uint64(5))
	f.Add([]byte("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\nGET / HTTP/1.1\r\n\r\n"), uint64(9))
	f.Fuzz(func(t *testing.T, said []byte, seed uint64) {
		if len(said) > 1<<16 {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		h := start(t, path, []int{32, 512, 4096}[random.IntN(3)])
		h.begin(bindings.NetworkNetworkRole(random.IntN(3)))
		for len(said) > 0 {
			n := 1 + random.IntN(min(len(said), 6000))
			if random.IntN(3) == 0 {
				n = min(len(said), 1+random.IntN(24))
			}
			kind := bindings.NetworkNetworkSegmentKind(random.IntN(2))
			requireWithin(t, kind, said[:n], h.transfer(kind, n, memoryOf(random, said[:n])...))
			said = said[n:]
		}
		h.end()
	})
}

// memoryOf divides a transfer into buffers, the last of which may be cut.
func memoryOf(random *rand.Rand, data []byte) [][]byte {
	if random.IntN(2) == 0 {
		return [][]byte{data}
	}
	var memory [][]byte
	for len(data) > 0 && len(memory) < 40 {
		n := min(len(data), random.IntN(1+len(data)/2+8))
		memory = append(memory, data[:n])
		data = data[n:]
	}
	if len(memory) == 0 {
		memory = [][]byte{nil}
	}
	return memory
}

// requireWithin checks that records of a transfer follow one another and have its bytes.
func requireWithin(t *testing.T, kind bindings.NetworkNetworkSegmentKind, transferred []byte, records []record) {
	t.Helper()
	at := 0
	for i := range records {
		r := &records[i]
		if r.Kind > uint8(write) {
			continue
		}
		require.Equal(t, uint8(kind), r.Kind)
		require.LessOrEqual(t, len(r.data), windows)
		if at == 0 && int(r.Length) < len(transferred) && len(records) == 1 {
			at = len(transferred) - int(r.Length) // behind a header of the PROXY protocol
		}
		require.LessOrEqual(t, at+int(r.Length), len(transferred))
		require.LessOrEqual(t, len(r.data), int(r.Length))
		require.True(t, bytes.HasPrefix(transferred[at:], r.data), "record %d of %d at %d has other bytes", i, len(records), at)
		at += int(r.Length)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
