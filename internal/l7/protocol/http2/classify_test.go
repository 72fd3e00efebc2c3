// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http2"
)

func TestClassify(t *testing.T) {
	frames := func(f func(e *end)) string {
		e := newEnd(t)
		f(e)
		return string(e.take())
	}
	ping := func(e *end) { require.NoError(t, e.WritePing(false, [8]byte{1})) }
	update := func(e *end) { require.NoError(t, e.WriteWindowUpdate(0, 1<<16)) }
	for name, c := range map[string]struct {
		first string
		all   bool
		want  l7.Guess
	}{
		"the preface":                       {xhttp2.ClientPreface, true, l7.Request},
		"its first 16 bytes":                {xhttp2.ClientPreface[:16], false, l7.Request},
		"its first 5 bytes":                 {xhttp2.ClientPreface[:5], true, l7.Perhaps},
		"5 bytes, more are not known":       {xhttp2.ClientPreface[:5], false, l7.No},
		"a request":                         {frames(func(e *end) { e.get(7, "/a") }), true, l7.Request},
		"a response":                        {frames(func(e *end) { e.headers(7, false, ":status", "200") }), true, l7.Response},
		"a response and its content":        {frames(func(e *end) { e.headers(7, false, ":status", "200").data(7, true, "abcdef") })[:20], false, l7.Response},
		"an update, then a request":         {frames(func(e *end) { update(e); e.get(7, "/a") }), true, l7.Request},
		"one frame of the connection":       {frames(ping), true, l7.Perhaps},
		"two":                               {frames(func(e *end) { ping(e); update(e) }), true, l7.Either},
		"two, and the beginning of a third": {frames(func(e *end) { ping(e); update(e); e.data(1, false, "abc") })[:35], true, l7.Perhaps},
		"settings, as after an upgrade":     {frames(func(e *end) { e.settings(); update(e) }), true, l7.Either},
		"content alone":                     {frames(func(e *end) { e.data(1, false, "abc") }), true, l7.Perhaps},
		"content that goes on":              {frames(func(e *end) { e.data(1, false, "abcdefghi") })[:12], false, l7.No},
		"HTTP/1":                            {"GET / HTTP/1.1\r\n\r\n", true, l7.No},
		"TLS":                               {"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", true, l7.No},
		"zeros":                             {string(make([]byte, 64)), true, l7.No},
		"a start-up of PostgreSQL":          {"\x00\x00\x00\x08\x04\xd2\x16\x2f", true, l7.No},
		"a request of Kafka":                {"\x00\x00\x00\x1b\x00\x12\x00\x03\x00\x00\x00\x01\x00\x07console\x00", true, l7.No},
		"a query of DNS over TCP":           {"\x00\x1d\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01", true, l7.No},
		"a call of Thrift":                  {"\x00\x00\x00\x11\x80\x01\x00\x01\x00\x00\x00\x04ping\x00\x00\x00\x00\x00", true, l7.No},
		"nothing":                           {"", true, l7.No},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, http2.New(nil, nil).Classify([]byte(c.first), c.all, l7.TCP))
			require.Equal(t, l7.No, http2.New(nil, nil).Classify([]byte(c.first), c.all, l7.UDP))
		})
	}
}

// TestOtherProtocolsAreNotTaken feeds messages that begin with their length, as many protocols have them, and random bytes.
func TestOtherProtocolsAreNotTaken(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	protocol := http2.New(nil, nil)
	for range 300_000 {
		b := make([]byte, 4+rnd.IntN(40))
		for i := range b {
			b[i] = byte(rnd.IntN(1 << rnd.IntN(9)))
		}
		switch n := uint32(len(b)); rnd.IntN(4) {
		case 0:
			binary.BigEndian.PutUint32(b, n)
		case 1:
			b = binary.BigEndian.AppendUint16(nil, uint16(n))
			b = append(b, make([]byte, n)...)
		case 2:
			b[0] = 0
		}
		guess := protocol.Classify(b, true, l7.TCP)
		require.Contains(t, []l7.Guess{l7.No, l7.Perhaps}, guess, "%x", b)
	}
}
