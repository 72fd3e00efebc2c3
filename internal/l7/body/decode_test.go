// SPDX-License-Identifier: Apache-2.0

package body_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
)

func packed(t testing.TB, text string, pack func(io.Writer) io.WriteCloser) []byte {
	var b bytes.Buffer
	w := pack(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func gzipped(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
func zlibbed(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
func deflated(w io.Writer) io.WriteCloser {
	f, err := flate.NewWriter(w, flate.BestCompression)
	if err != nil {
		panic(err) // the level is one
	}
	return f
}

func TestDecode(t *testing.T) {
	const text = "what a body says: ä€"
	for name, c := range map[string]struct {
		body           []byte
		encoding, kind string
		want           string
	}{
		"plain":                    {[]byte(text), "", "", text},
		"identity":                 {[]byte(text), "identity", "text/plain; charset=UTF-8", text},
		"gzip":                     {packed(t, text, gzipped), "gzip", "application/json", text},
		"x-gzip, in capitals":      {packed(t, text, gzipped), "X-GZIP", "", text},
		"deflate":                  {packed(t, text, zlibbed), "deflate", "", text},
		"deflate without a head":   {packed(t, text, deflated), "deflate", "", text},
		"twice":                    {packed(t, string(packed(t, text, zlibbed)), gzipped), "deflate, gzip", "", text},
		"Latin-1":                  {[]byte("\xe4\xfc"), "", "text/html; charset=iso-8859-1", "äü"},
		"Shift JIS in gzip":        {packed(t, "\x93\xfa\x96\x7b", gzipped), "gzip", `text/html; charset="Shift_JIS"`, "日本"},
		"UTF-16 with its mark":     {[]byte("\xff\xfea\x00b\x00"), "", "text/plain; charset=utf-16", "ab"},
		"the mark says more":       {[]byte("\xfe\xff\x00a\x00b"), "", "text/plain; charset=utf-16le", "ab"},
		"UTF-16":                   {[]byte("a\x00b\x00"), "", "text/plain; charset=utf-16le", "ab"},
		"a kind that is none":      {[]byte(text), "", ";;", text},
		"nothing":                  {nil, "", "", ""},
		"bytes that are no letter": {[]byte("\xff\xfe"), "", "application/octet-stream", "\xff\xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			got, cut, err := body.Decode(c.body, c.encoding, c.kind, "", 1000)
			require.NoError(t, err)
			require.False(t, cut)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestWhatCannotBeDecoded(t *testing.T) {
	for name, c := range map[string]struct{ encoding, kind, want string }{
		"brotli":             {"br", "", `decoding a body of Content-Encoding "br": it is not supported`},
		"three codings":      {"gzip, gzip, gzip", "", "decoding a body: 3 codings, of which at most 2 are undone: it is not supported"},
		"an unknown charset": {"", "text/plain; charset=x-mine", `decoding a body of charset "x-mine": it is not supported`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := body.Decode([]byte("text"), c.encoding, c.kind, "", 1000)
			require.ErrorIs(t, err, body.ErrUnsupported)
			require.EqualError(t, err, c.want)
		})
	}
	_, _, err := body.Decode([]byte("no gzip, but long enough"), "gzip", "", "", 1000)
	require.ErrorIs(t, err, gzip.ErrHeader)
}

// TestOfACutBodyComesOutItsBeginning holds for each place where it may be cut.
func TestOfACutBodyComesOutItsBeginning(t *testing.T) {
	text := strings.Repeat("one two three ", 300)
	whole := packed(t, text, gzipped)
	for n := range len(whole) {
		got, cut, err := body.Decode(whole[:n], "gzip", "", "", 1<<20)
		require.True(t, cut, "%d bytes", n)
		require.True(t, strings.HasPrefix(text, string(got)))
		if len(got) > 0 {
			require.NoError(t, err)
		}
	}
}

// TestABombIsBounded checks that what comes out is no more than the limit.
func TestABombIsBounded(t *testing.T) {
	bomb := packed(t, string(packed(t, strings.Repeat("\x00", 32<<20), gzipped)), gzipped)
	require.Less(t, len(bomb), 4096)
	got, cut, err := body.Decode(bomb, "gzip, gzip", "", "", 1000)
	require.NoError(t, err)
	require.True(t, cut)
	require.Len(t, got, 1000)
}

// TestWhatStandsForNothingIsBounded checks that little is read of what nothing comes out of.
func TestWhatStandsForNothingIsBounded(t *testing.T) {
	empty := strings.Repeat(string(packed(t, "", gzipped)), 1<<18)
	got, cut, err := body.Decode(packed(t, empty, gzipped), "gzip, gzip", "", "", 1000)
	require.NoError(t, err)
	require.True(t, cut)
	require.Empty(t, got)

	switches := packed(t, strings.Repeat("\x1b$B\x1b(B", 1<<20), gzipped)
	got, cut, err = body.Decode(switches, "gzip", "text/plain; charset=iso-2022-jp", "", 1000)
	require.NoError(t, err)
	require.True(t, cut)
	require.Empty(t, got)
}

// FuzzDecode checks that nothing panics and what comes out is bounded.
func FuzzDecode(f *testing.F) {
	f.Add(packed(f, "text", gzipped), "gzip", "text/plain; charset=gbk")
	f.Add(packed(f, "text", zlibbed), "deflate, gzip", "text/plain; charset=iso-2022-jp")
	f.Add([]byte("\x78\x9c"), "deflate", "text/plain; charset=utf-16")
	f.Fuzz(func(t *testing.T, data []byte, encoding, kind string) {
		got, _, err := body.Decode(data, encoding, kind, "", 100)
		require.LessOrEqual(t, len(got), 100)
		if err != nil {
			require.Nil(t, got)
		}
	})
}
