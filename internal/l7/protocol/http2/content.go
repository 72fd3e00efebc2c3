// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"encoding/binary"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// readPrefix reads what is before the content.
func (p *parser) readPrefix(r *reader, piece *l7.Piece) bool {
	if r.stream.Left() == 0 {
		return false
	}
	prefix, got := r.stream.Take(int(r.frame.prefix()))
	switch got {
	case l7.More:
		return false
	case l7.Hole, l7.Short:
		p.passOver(r, piece.Ended)
		return true
	case l7.Whole:
	}
	if r.frame.has(flagPadded) {
		r.padding = int64(prefix[0])
		prefix = prefix[1:]
		if r.padding > r.left() {
			p.sink.Stats.Invalid++
			p.passOver(r, piece.Ended)
			return true
		}
	}
	r.state = stateBlock
	switch r.frame.kind {
	case kindData:
		r.state = stateData
		p.countPadding(r, r.frame.prefix())
	case kindPushPromise:
		r.block.promise = binary.BigEndian.Uint32(prefix) & streamBits
	}
	return true
}

// passOver gives up the content of the frame at hand.
func (p *parser) passOver(r *reader, at int64) {
	r.state = stateRest
	switch r.frame.kind {
	case kindData:
		if h := p.halfOf(r, r.frame.stream); h != nil {
			h.miss()
		}
	case kindHeaders, kindPushPromise, kindContinuation:
		r.breakBlock()
	case kindReset:
		p.resetStream(r, ending{at: at})
	}
}

// readRest passes over the rest of a frame.
func (p *parser) readRest(r *reader, piece *l7.Piece) bool {
	n := r.stream.Skip(r.left())
	if n > 0 && r.frame.kind == kindData {
		p.countData(r, nil, n, piece.Ended)
	}
	if r.left() > 0 {
		return false
	}
	r.state = stateHead
	p.endFrame(r, piece.Ended)
	return true
}

// readData passes over the content of DATA.
func (p *parser) readData(r *reader, piece *l7.Piece) bool {
	known := r.stream.Peek()
	known = known[:min(int64(len(known)), r.content())]
	if n := r.stream.Skip(r.content()); n > 0 {
		p.countData(r, known, n, piece.Ended)
	}
	if r.content() > 0 {
		return false
	}
	r.state = stateRest
	return true
}

// readBlock decodes the fields of a header block.
func (p *parser) readBlock(r *reader, piece *l7.Piece) bool {
	known := r.stream.Peek()
	known = known[:min(int64(len(known)), r.content())]
	if !r.block.broken && len(known) > 0 {
		if err := r.decoder.Write(known); err != nil {
			p.sink.Stats.Invalid++
			r.breakBlock()
		}
	}
	r.stream.Skip(int64(len(known)))
	switch {
	case r.content() == 0:
		r.state = stateRest
	case r.stream.Left() > 0: // of which nothing but the number is known
		p.passOver(r, piece.Ended)
	default:
		return false
	}
	if r.stream.Offset()-r.block.begin > p.sink.Limits.Head {
		r.breakBlock()
	}
	return true
}

// breakBlock gives up the block being read, and with it the places of all fields that were added before.
func (r *reader) breakBlock() {
	if !r.block.open || r.block.broken {
		return
	}
	r.block.broken = true
	r.block.fields.miss()
	r.decoder.Forget()
}

// readRecord reads a frame whose content says something about a stream or the connection.
func (p *parser) readRecord(r *reader, piece *l7.Piece) bool {
	if r.stream.Left() == 0 {
		return false
	}
	record, got := r.stream.Take(r.frame.record())
	switch got {
	case l7.More:
		return false
	case l7.Hole, l7.Short:
		p.passOver(r, piece.Ended)
		return true
	case l7.Whole:
	}
	switch r.frame.kind {
	case kindReset:
		p.resetStream(r, ending{reset: true, code: binary.BigEndian.Uint32(record), at: piece.First()})
	case kindGoAway:
		p.goAway(r, binary.BigEndian.Uint32(record)&streamBits, piece.First())
	default:
		p.setting(r, binary.BigEndian.Uint16(record), binary.BigEndian.Uint32(record[2:]))
	}
	if r.frame.kind != kindSettings || r.left() == 0 {
		r.state = stateRest
	}
	return true
}

// setting takes one of the other direction's rules. The size of header tables is not among them: who fills one says in its blocks which
// size it uses.
func (p *parser) setting(r *reader, id uint16, value uint32) {
	if id == maxFrameSetting && value >= usualFrame && value <= longestFrame {
		p.readers[r.direction.Other()].longest = int64(value)
	}
}

// endFrame goes on after a whole frame, whose last byte was transferred at the given time.
func (p *parser) endFrame(r *reader, at int64) {
	f := &r.frame
	switch f.kind {
	case kindData:
		if r.trust == waiting {
			r.trial.stream, r.trial.ends, r.trial.last = f.stream, f.has(flagEndStream), at
		} else if f.has(flagEndStream) {
			p.endHalf(r, f.stream, at)
		}
	case kindHeaders, kindPushPromise, kindContinuation:
		if r.block.open && f.has(flagEndHeaders) {
			p.endBlock(r, at)
		}
	}
}

// passTrial goes on after the head that follows a frame on trial, whose first byte was transferred at the given time: it was one.
func (p *parser) passTrial(r *reader, at int64) {
	r.trust = trusted
	if r.trial.stream == 0 { // what it said was not read
		p.doubt(r, at)
		return
	}
	p.seeData(r, r.trial.stream, r.trial.last)
	if r.trial.ends {
		p.endHalf(r, r.trial.stream, r.trial.last)
	}
	r.trial.stream = 0
}
