// SPDX-License-Identifier: Apache-2.0

package http1

import "github.com/otelcol-ebpf/ebpfreceiver/internal/l7"

var _ l7.Skipper = (*parser)(nil)

// skippedGet and skippedHead are requests as a client sends them of which nothing but the method of HEAD is known.
var (
	skippedGet  = []byte("GET " + l7.UnknownText + " HTTP/1.1\r\n\r\n")
	skippedHead = []byte("HEAD " + l7.UnknownText + " HTTP/1.1\r\n\r\n")
)

// Skip has the parser read a request in the place of the skipped one. Only a request that begins here gets its tag.
func (p *parser) Skip(piece *l7.Piece, skipped l7.Skipped) {
	piece.Data = skippedGet
	if skipped.Head {
		piece.Data = skippedHead
	}
	piece.Length = int64(len(piece.Data))
	p.tag = skipped.Tag
	p.Feed(piece)
	p.tag = 0
}
