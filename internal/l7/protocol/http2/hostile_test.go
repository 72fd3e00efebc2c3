// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// TestAfterHostileMessages checks that what is made to harm who reads it takes little memory, also where contents are kept, and that the
// next request on the connection is reported with its own response.
func TestAfterHostileMessages(t *testing.T) {
	request := func(path string) []byte { return append([]byte{0x82, 0x86, 0x04, byte(len(path))}, path...) }
	begin := func(t *testing.T, c *end, ends bool, block []byte) {
		require.NoError(t, c.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: ends}))
	}
	const often = 1000
	part := bytes.Repeat([]byte("b"), 4000)
	for name, bad := range map[string]func(t *testing.T, k *keeping){
		"a block that goes on without end": func(t *testing.T, k *keeping) {
			begin(t, k.client, false, request("/kept/bad"))
			for range often {
				require.NoError(t, k.client.WriteContinuation(1, false, append([]byte{0x00, 1, 'x', 120}, part[:120]...)))
				require.NoError(t, k.client.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 4000)))
				k.pass()
			}
			require.NoError(t, k.client.WriteContinuation(1, true, nil))
		},
		"a block of one value without end": func(t *testing.T, k *keeping) {
			begin(t, k.client, false, append(request("/kept/bad"), 0x00, 1, 'x', 0x7f, 0xff, 0xff, 0xff, 0x7f))
			for range often {
				require.NoError(t, k.client.WriteContinuation(1, false, part))
				k.pass()
			}
			require.NoError(t, k.client.WriteContinuation(1, true, part))
		},
		"a bomb of places": func(t *testing.T, k *keeping) {
			block := append(request("/kept/bad"), k.client.fields("x-bomb", strings.Repeat("b", 3900))...)
			begin(t, k.client, false, block)
			for range often {
				require.NoError(t, k.client.WriteContinuation(1, false, bytes.Repeat([]byte{0xbe}, 4000)))
				k.pass()
			}
			require.NoError(t, k.client.WriteContinuation(1, true, nil))
		},
		"a table of 4 GB": func(t *testing.T, k *keeping) {
			require.NoError(t, k.server.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingHeaderTableSize, Val: 1<<32 - 1}))
			k.pass()
			begin(t, k.client, true, append([]byte{0x3f, 0xe0, 0xff, 0xff, 0xff, 0x0f}, request("/kept/bad")...))
			for id := uint32(1001); id < 1001+2*often; id += 2 {
				k.client.headers(id, true, ":method", "GET", ":scheme", "http", ":path", "/kept", "x-fill", strings.Repeat("f", int(id)))
				k.server.headers(id, true, ":status", "204")
				k.pass()
			}
		},
		"1 GB of content": func(t *testing.T, k *keeping) {
			require.NoError(t, k.server.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxFrameSize, Val: 1<<24 - 1}))
			k.pass()
			begin(t, k.client, true, request("/kept/bad"))
			for range 64 { // of each frame some bytes are known
				data := append([]byte{0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1}, part...)
				k.pass()
				k.feedMore(l7.Read, data, 1<<24-1-int64(len(part)))
			}
		},
		"streams that are reset at once": func(t *testing.T, k *keeping) {
			begin(t, k.client, true, request("/kept/bad"))
			for id := uint32(1001); id < 1001+2*often; id += 2 {
				k.client.get(id, "/kept/reset")
				require.NoError(t, k.client.WriteRSTStream(id, xhttp2.ErrCodeCancel))
				k.pass()
			}
		},
		"streams that are never answered": func(t *testing.T, k *keeping) {
			begin(t, k.client, true, request("/kept/bad"))
			for id := uint32(1001); id < 1001+2*often; id += 2 {
				k.client.get(id, "/kept/open")
				k.pass()
			}
			for id := uint32(1001); id < 1001+2*often; id += 2 {
				require.NoError(t, k.client.WriteRSTStream(id, xhttp2.ErrCodeCancel))
			}
		},
		"settings and pings": func(t *testing.T, k *keeping) {
			begin(t, k.client, true, request("/kept/bad"))
			for range often {
				k.client.settings()
				require.NoError(t, k.client.WritePing(false, [8]byte{1}))
				k.pass()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t, 16<<10)
			bad(t, k)
			k.pass()
			require.Less(t, k.Held(), 1<<20)
			require.NoError(t, k.client.WriteRSTStream(1, xhttp2.ErrCodeCancel))
			const next = 1<<31 - 11
			require.NoError(t, k.client.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: next, BlockFragment: request("/kept/next"), EndStream: true, EndHeaders: true}))
			require.NoError(t, k.server.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: next, BlockFragment: []byte{0x08, 3, '2', '0', '1'}, EndHeaders: true}))
			k.server.data(next, true, "ok")
			k.pass()
			require.NotEmpty(t, k.kept)
			last := k.kept[len(k.kept)-1]
			require.Equal(t, "/kept/next", last.path)
			require.Equal(t, 201, last.status)
			require.Equal(t, "ok", string(last.response.Body))
			k.Close()
			require.Equal(t, room, k.contents.Left)
		})
	}
}
