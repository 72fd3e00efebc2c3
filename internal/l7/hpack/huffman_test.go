// SPDX-License-Identifier: Apache-2.0

package hpack

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2/hpack"
)

// TestHuffmansCodeIsReadAsTheirs compares with golang.org/x/net: of texts that were encoded, and of random bytes, which are mostly none.
func TestHuffmansCodeIsReadAsTheirs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 3))
	valid := 0
	for i := range 100_000 {
		b := make([]byte, rnd.IntN(20))
		for i := range b {
			b[i] = byte(rnd.Uint32())
			if rnd.IntN(4) == 0 {
				b[i] = 0xff
			}
		}
		if i%2 == 0 {
			b = hpack.AppendHuffmanString(nil, string(b))
		}
		want, err := hpack.HuffmanDecodeToString(b)
		got, ok := appendDecoded(nil, b)
		require.Equal(t, err == nil, ok, "%x", b)
		if ok {
			valid++
			require.Equal(t, want, string(got), "%x", b)
		}
	}
	require.Greater(t, valid, 50_000)
}

func FuzzHuffman(f *testing.F) {
	f.Add(hpack.AppendHuffmanString(nil, "/a?b=c"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := hpack.HuffmanDecodeToString(b)
		got, ok := appendDecoded(nil, b)
		require.Equal(t, err == nil, ok)
		if ok {
			require.Equal(t, want, string(got))
		}
	})
}
