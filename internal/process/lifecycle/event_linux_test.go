// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package lifecycle

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// record makes a struct process_event as the kernel writes it.
func record(start uint64, words ...uint32) []byte {
	raw := binary.NativeEndian.AppendUint64(nil, start)
	for _, w := range words {
		raw = binary.NativeEndian.AppendUint32(raw, w)
	}
	return append(raw, "0123456789abcde\x00"...)
}

func TestParseEvent(t *testing.T) {
	event, err := parseEvent(record(1234567890123, uint32(Fork), 4711, 4710, 7))
	require.NoError(t, err)
	require.Equal(t, Event{Type: Fork, PID: 4711, ParentPID: 4710, StartBoottime: 1234567890123, ExecID: 7, Comm: "0123456789abcde"}, event)

	event, err = parseEvent(append(record(1, uint32(Ask), 2, 0, 3), 0xff))
	require.NoError(t, err, "a longer record of a later program is read as far as it is known")
	require.Equal(t, Event{Type: Ask, PID: 2, StartBoottime: 1, ExecID: 3, Comm: "0123456789abcde"}, event)

	for _, n := range []int{0, 1, 39} {
		_, err = parseEvent(make([]byte, n))
		require.ErrorContains(t, err, "reading a process event: ")
		require.ErrorContains(t, err, "bytes, want 40")
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, eventSize-1))
	f.Add(record(1, uint32(Exit), 2, 3, 4))
	f.Add(record(^uint64(0), ^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		event, err := parseEvent(raw)
		if len(raw) < eventSize {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		back := record(event.StartBoottime, uint32(event.Type), event.PID, event.ParentPID, event.ExecID)
		require.Equal(t, raw[:commOffset], back[:commOffset])
		require.True(t, strings.HasPrefix(string(raw[commOffset:eventSize]), event.Comm))
	})
}
