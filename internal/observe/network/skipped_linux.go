// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/binary"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// skippedRequest is a request that was skipped in the kernel although its response may be captured.
type skippedRequest = bindings.NetworkNetworkRequestRecord

// parseSkipped parses the bytes after the head of a record of kind NETWORK_SEGMENT_REQUEST.
func parseSkipped(data []byte) (skippedRequest, bool) {
	if len(data) < int(unsafe.Sizeof(skippedRequest{})) {
		return skippedRequest{}, false // impossible: the programs write no less
	}
	number := func(i int) uint32 { return binary.NativeEndian.Uint32(data[4*i:]) }
	return skippedRequest{Set: number(0), Path: number(1), Head: number(2)}, true
}

// skippedTag and skippedOf convert the set and the path of a skipped request to the tag of its exchange and back. It is 0 if the request was
// not to be counted.
func skippedTag(r skippedRequest) uint64 { return uint64(r.Set)<<32 | uint64(r.Path) }

func skippedOf(tag uint64) skippedRequest {
	return skippedRequest{Set: uint32(tag >> 32), Path: uint32(tag)}
}

// skip passes a skipped request to the parser of its connection.
func (c *capture) skip(id streamID, s *stream, p *segment, data []byte) {
	request, ok := parseSkipped(data)
	if !ok {
		return
	}
	c.current = s
	lost, lostAt := s.lost(p)
	s.conn.Skip(l7.Piece{Direction: l7.Read, Began: int64(p.Began), Ended: int64(p.Ended), Lost: lost, LostAt: lostAt},
		l7.Skipped{Head: request.Head != 0, Tag: skippedTag(request)})
	c.attribute(s)
	c.review(id, s)
}
