// SPDX-License-Identifier: Apache-2.0

package body_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
)

// TestProtobuf checks how messages are reported; the first ones are those of https://protobuf.dev/programming-guides/encoding.
func TestProtobuf(t *testing.T) {
	const much = 1 << 10
	for name, c := range map[string]struct {
		data  string
		cut   bool
		limit int
		want  string
	}{
		"a number":              {"\x08\x96\x01", false, much, "1: 150"},
		"a text":                {"\x12\x07testing", false, much, `2: "testing"`},
		"a message":             {"\x1a\x03\x08\x96\x01", false, much, "3 {1: 150}"},
		"a text and numbers":    {"\x22\x05hello\x28\x01\x28\x02\x28\x03", false, much, `4: "hello" 5: 1 5: 2 5: 3`},
		"numbers of fixed size": {"\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x15\x01\x00\x00\x00", false, much, "1: 0x3ff0000000000000 2: 0x00000001"},
		"bytes":                 {"\x0a\x02\xff\xfe", false, much, "1: <2 bytes>"},
		"lines":                 {"\x0a\x03a\nb", false, much, `1: "a\nb"`},
		"letters":               {"\x0a\x04ä\xe2\x82", false, much, "1: <4 bytes>"},
		"nothing":               {"", false, much, ""},
		"cut in a text":         {"\x0a\x09hello", true, much, `1: "hello"`},
		"cut in a letter":       {"\x0a\x09ä\xe2\x82", true, much, `1: "ä"`},
		"cut in a tag":          {"\x08\x01\x96", true, much, "1: 1"},
		"cut in a number":       {"\x08\x01\x08\x96", true, much, "1: 1"},
		"cut in a message":      {"\x1a\x09\x0a\x02ok\x12\x05mo", true, much, `3 {1: "ok" 2: "mo"}`},
		"more than is wanted":   {strings.Repeat("\x08\x01", 100), false, 10, "1: 1 1: 1 1: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			reported, ok := body.AppendProtobuf(nil, []byte(c.data), c.limit, c.cut)
			require.True(t, ok)
			require.Equal(t, c.want, string(reported))
		})
	}
	for name, data := range map[string]string{
		"text": "hello, world", "a type that is none": "\x0f\x01", "a group": "\x0b\x0c", "field 0": "\x00\x01", "it ends within": "\x0a\x09hello",
		"a tag that is too long": strings.Repeat("\xff", 11),
	} {
		t.Run("not: "+name, func(t *testing.T) {
			_, ok := body.AppendProtobuf(nil, []byte(data), much, false)
			require.False(t, ok)
		})
	}
}

// FuzzProtobuf checks that any data are reported within bounds, as a text.
func FuzzProtobuf(f *testing.F) {
	f.Add([]byte("\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"), false)
	f.Add([]byte(strings.Repeat("\x0a\x7f", 60)), true)
	f.Fuzz(func(t *testing.T, data []byte, cut bool) {
		const limit = 64
		reported, ok := body.AppendProtobuf(nil, data, limit, cut)
		if ok {
			require.True(t, utf8.Valid(reported))
			require.LessOrEqual(t, len(reported), limit+10*len(data)+64, "the last field goes beyond the limit, no more")
		}
	})
}
