// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]ByteSize{
		"0": 0, "0B": 0, "1": 1, "77B": 77, "512KiB": 512 << 10, "16 KiB": 16 << 10, "8MiB": 8 << 20, "3GiB": 3 << 30,
	} {
		var got ByteSize
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "KiB", "-1KiB", "1KB", "1.5MiB", "512kib", "9223372036854775807KiB", "1 2", "0x10", "1TiB"} {
		got := ByteSize(5)
		require.EqualError(t, got.UnmarshalText([]byte(text)), `"`+text+`" is no size in bytes, such as 512KiB`)
		require.Equal(t, ByteSize(5), got)
	}
	for size, want := range map[ByteSize]string{0: "0", 1: "1B", 1023: "1023B", 1024: "1KiB", 1536 << 10: "1536KiB", 3 << 30: "3GiB"} {
		require.Equal(t, want, size.String())
	}
}

// FuzzByteSize checks that what is read is written as the same size again.
func FuzzByteSize(f *testing.F) {
	for _, seed := range []string{"512KiB", "0", "-1", "9223372036854775807", "1e3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var size, again ByteSize
		if size.UnmarshalText([]byte(text)) != nil {
			return
		}
		require.NoError(t, again.UnmarshalText([]byte(size.String())))
		require.Equal(t, size, again)
	})
}
