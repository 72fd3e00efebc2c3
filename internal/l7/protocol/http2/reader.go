// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"encoding/binary"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/hpack"
)

// state is what a direction says next.
type state uint8

const (
	stateSearch state = iota // nobody knows: a frame is looked for
	stateHead
	statePreface // what is left of it
	statePrefix  // of a frame
	stateBlock
	stateData
	stateRecord // the content of a frame that is needed as a whole, or setting by setting
	stateRest   // what is left of a frame that nobody needs
)

// trust is how sure it is that frames begin where they are read.
type trust uint8

const (
	trusted trust = iota
	onTrial       // the next head is that of a frame on trial
	waiting       // that frame is being read: the head after it decides
)

// block is a header block, which may go on in CONTINUATION frames.
type block struct {
	open    bool
	stream  uint32 // the stream of its frames
	pushes  bool   // it is that of a request that the server makes
	promise uint32 // on this stream; 0 where it is not known
	ends    bool   // the message ends with it
	first   int64  // time of its first byte
	begin   int64  // and its offset
	broken  bool   // bytes of it are missing, or break the rules
	limit   int    // bytes of values to be kept
	fields  fields
}

// reader reads the frames of one direction.
type reader struct {
	direction l7.Direction
	stream    l7.Stream
	decoder   *hpack.Decoder
	state     state
	trust     trust
	longest   int64 // a frame, as far as the other end's settings were seen

	frame   frame
	first   int64 // time of the frame's first byte
	end     int64 // the offset at which it ends
	padding int64 // bytes at its end
	block   block
	trial   struct { // the frame on trial, if it is DATA
		stream uint32
		ends   bool
		last   int64
	}
	last int64 // time of the last byte of the last piece
}

// left is the number of bytes of the frame that were not read.
func (r *reader) left() int64 { return r.end - r.stream.Offset() }

// content is the number of bytes before the padding that were not read.
func (r *reader) content() int64 { return max(0, r.left()-r.padding) }

// step reads the next part of a frame. It returns false when the piece has no more of it.
func (p *parser) step(r *reader, piece *l7.Piece) bool {
	switch r.state {
	case stateHead:
		return p.readHead(r, piece)
	case statePreface:
		return p.readPreface(r, piece)
	case statePrefix:
		return p.readPrefix(r, piece)
	case stateBlock:
		return p.readBlock(r, piece)
	case stateData:
		return p.readData(r, piece)
	case stateRecord:
		return p.readRecord(r, piece)
	case stateRest:
		return p.readRest(r, piece)
	case stateSearch:
		r.stream.Drop()
	}
	return false
}

// search looks for a frame in a piece.
func (p *parser) search(r *reader) {
	data := r.stream.Peek()
	if n := min(len(data), headSize); n > 0 && string(data[:n]) == preface[:n] {
		r.state, r.trust = stateHead, onTrial // until the rest of it is there
		return
	}
	at, sure := find(data, int64(len(data)) == r.stream.Left(), r.longest)
	if at < 0 {
		return
	}
	r.stream.Skip(int64(at))
	r.state, r.trust = stateHead, trusted
	if !sure {
		r.trust = onTrial
	}
}

// readHead reads the head of a frame.
func (p *parser) readHead(r *reader, piece *l7.Piece) bool {
	if r.stream.Left() == 0 {
		return false
	}
	if !r.stream.Carrying() {
		r.first = piece.First()
	}
	head, got := r.stream.Take(headSize)
	switch got {
	case l7.More:
		return false
	case l7.Hole, l7.Short:
		p.miss(r, piece.Ended)
		return true
	case l7.Whole:
	}
	if string(head) == preface[:headSize] {
		r.end, r.state = r.stream.Offset()+int64(len(preface)-headSize), statePreface
		return true
	}
	r.frame = parseFrame(head)
	r.end, r.padding = r.stream.Offset()+r.frame.length, 0
	if !p.expected(r) {
		p.sink.Stats.Invalid++
		p.miss(r, piece.Ended)
		return true
	}
	p.beginFrame(r)
	return true
}

// expected tells whether a frame with this head may follow here.
func (p *parser) expected(r *reader) bool {
	switch r.trust {
	case onTrial:
		r.trust = waiting
	case waiting:
		if !r.frame.likely(r.longest) {
			return false
		}
		p.passTrial(r)
	case trusted:
	}
	if r.block.open {
		return r.frame.kind == kindContinuation && r.frame.stream == r.block.stream
	}
	if r.frame.kind == kindContinuation {
		return r.trust == waiting // its beginning was missed
	}
	return r.frame.allowed()
}

// readPreface reads what is left of a client's preface.
func (p *parser) readPreface(r *reader, piece *l7.Piece) bool {
	if r.stream.Left() == 0 {
		return false
	}
	rest, got := r.stream.Take(len(preface) - headSize)
	switch {
	case got == l7.More:
		return false
	case got == l7.Whole && string(rest) == preface[headSize:]:
		p.begin(r)
	default:
		p.miss(r, piece.Ended)
	}
	return true
}

// beginFrame goes on after the head of a frame.
func (p *parser) beginFrame(r *reader) {
	f := &r.frame
	r.state = stateRest
	switch f.kind {
	case kindData:
		p.beginData(r)
		r.state = stateData
	case kindHeaders, kindPushPromise:
		p.beginBlock(r)
		r.state = stateBlock
	case kindContinuation:
		if r.block.open {
			r.state = stateBlock
		}
	case kindReset, kindGoAway:
		r.state = stateRecord
	case kindSettings:
		if !f.has(flagAck) && f.length > 0 {
			r.state = stateRecord
		}
	}
	if f.prefix() > 0 {
		r.state = statePrefix
	}
}

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
		p.resetStream(r, reset{at: at})
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
		p.resetStream(r, reset{known: true, code: binary.BigEndian.Uint32(record), at: piece.Ended})
	case kindGoAway:
		p.goAway(r, binary.BigEndian.Uint32(record)&streamBits)
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

// passTrial goes on after the head that follows a frame on trial: it was one.
func (p *parser) passTrial(r *reader) {
	r.trust = trusted
	if r.trial.stream == 0 {
		return
	}
	p.seeData(r, r.trial.stream, r.trial.last)
	if r.trial.ends {
		p.endHalf(r, r.trial.stream, r.trial.last)
	}
	r.trial.stream = 0
}
