// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/hpack"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// beginCall notes the call that transferred a piece, for the block that goes on with it.
func (p *parser) beginCall(r *reader, piece *l7.Piece) {
	contents := p.sink.Contents
	if contents == nil {
		return
	}
	r.call = piece.Call(0)
	switch whole := piece.Call(r.stream.Left()); {
	case r.block.open && r.block.decided:
		r.block.content.AddCall(whole, r.stream.Offset())
	case r.block.open || r.stream.Carrying():
		r.opening.Add(whole, r.stream.Offset(), contents.Calls)
	}
}

// openHead notes the call that transferred the beginning of a frame, unless a block goes on with it.
func (p *parser) openHead(r *reader) {
	contents := p.sink.Contents
	if contents == nil || r.block.open {
		return
	}
	call := r.call
	call.Length = r.stream.Left()
	r.opening.Reset()
	r.opening.Add(call, r.stream.Offset(), contents.Calls)
}

// addField takes the next field of a block.
func (p *parser) addField(r *reader, f *hpack.Field) {
	b := &r.block
	b.fields.add(f, b.limit)
	if p.sink.Contents == nil || !b.fields.regular {
		return
	}
	p.decide(r)
	switch {
	case b.content == nil:
	case !f.Known || !b.content.FitsField(len(f.Name)+len(separator)+len(f.Value)) || !isName(f.Name):
		b.content.OmitField()
	default:
		p.line = append(append(append(p.line[:0], f.Name...), separator...), f.Value...)
		for i, c := range p.line {
			if c == '\n' || c == '\r' { // RFC 9113, section 8.2.1, forbids them: they would begin another field
				p.line[i] = ' '
			}
		}
		b.content.AddField(p.line)
	}
}

// separator is what is between a field's name and its value in a line.
const separator = ": "

// isName reports whether it is a name that takes part of a line, which others may follow.
func isName(name []byte) bool { return len(name) > 0 && !bytes.ContainsAny(name, " \t\r\n:") }

// decide finds out whether the content of a block's message is wanted, once its pseudo-fields are known: the others come after them.
func (p *parser) decide(r *reader) {
	b, contents := &r.block, p.sink.Contents
	if contents == nil || b.decided {
		return
	}
	b.decided = true
	purposes := uint64(0)
	switch shape := b.fields.shape; {
	case shape == shapeRequest, shape == shapeUnknown && p.isRequest(r):
		purposes = p.wantedOfRequest(r)
	case p.isResponse(r) && shape != shapeTrailers:
		purposes = p.wantedOfResponse(r)
	}
	if purposes != 0 {
		b.content = contents.New(purposes, r.opening)
	}
}

// wantedOfRequest returns for what the content of the request is wanted that begins with a block.
func (p *parser) wantedOfRequest(r *reader) uint64 {
	b := &r.block
	if h := p.halfOf(r, b.stream); h != nil && h.begun && !b.pushes {
		return 0 // trailers
	}
	t := rfc9110.SplitTarget(b.fields.pseudo(tagPath))
	return p.sink.Contents.Wanted(t.Path, t.Query)
}

// wantedOfResponse does the same of a response: it is wanted where its request is. One that is informational is not.
func (p *parser) wantedOfResponse(r *reader) uint64 {
	b := &r.block
	s := p.streams.find(b.stream)
	if s == nil || p.requestOf(s).content == nil {
		return 0
	}
	h := p.responseOf(s)
	status := rfc9110.Status(b.fields.get(tagStatus))
	if h.ended || h.begun && !h.open || status/100 == 1 {
		return 0
	}
	return p.requestOf(s).content.For
}

// free gives back what was kept of the content.
func (b *block) free() {
	b.content.Free()
	b.content = nil
}

func (h *half) free() {
	h.content.Free()
	h.content = nil
}

// takeContent gives a message what was kept with its head, in place of that of one that was informational.
func (h *half) takeContent(r *reader) {
	h.free()
	h.content, r.block.content = r.block.content, nil
	h.content.EndCall(r.stream.Offset())
}

// count counts n bytes of the message, which the call at hand has transferred.
func (h *half) count(r *reader, n int64) {
	h.whole += n
	if h.content != nil && r.call != (l7.Call{}) {
		call := r.call
		call.Length = n
		h.content.AddBytes(call)
	}
}

// held is the number of bytes of memory held.
func (h *half) held() int { return h.fields.held() + h.content.Held() }
