// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// rawPiece returns a record as programs write it.
func rawPiece(p segment, data string) []byte {
	return append(append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&p)), segmentHeadBytes)...), data...)
}

// TestSegmentsAreOrdered checks that a response comes behind its request though it was recorded before, and that recent segments wait.
func TestSegmentsAreOrdered(t *testing.T) {
	const ms = 1_000_000
	var w waiting
	var got []string
	take := func(now uint64) []string {
		got = nil
		w.take(now, orderPatience, func(p *segment, data []byte) { got = append(got, fmt.Sprintf("%d %s", p.Kind, data)) })
		return got
	}
	w.add(rawPiece(segment{Kind: 0, Began: 2 * ms, Ended: 11 * ms}, "response")) // a read that waited
	w.add(rawPiece(segment{Kind: 1, Began: 10 * ms, Ended: 30 * ms}, "request")) // a write that was preempted
	w.add(rawPiece(segment{Kind: 1, Began: 40 * ms, Ended: 41 * ms}, "next"))
	w.add([]byte("no record"))
	require.Empty(t, take(25*ms))
	require.Equal(t, []string{"1 request", "0 response"}, take(31*ms))
	w.add(rawPiece(segment{Kind: 0, Began: 35 * ms, Ended: 39 * ms}, ""))
	require.Equal(t, []string{"0 ", "1 next"}, take(60*ms))
	require.Empty(t, take(1000*ms))
	require.Empty(t, w.segments)
	require.Empty(t, w.bytes)
}
