// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/hpack"
)

// state is what a direction says next.
type state uint8

const (
	stateSearch state = iota // unknown: a frame is searched for
	stateHead
	statePreface // what is left of it
	statePrefix  // of a frame
	stateBlock
	stateData
	stateRecord // the content of a frame that is needed as a whole, or setting by setting
	stateRest   // what is left of a frame that is not needed
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
	place   uint32 // and the position of its frame
	broken  bool   // bytes of it are missing, or break the rules
	limit   int    // bytes of values to be kept
	fields  fields
	// decided says that it is known whether its message's content is wanted; content is nil where it is not.
	decided bool
	content *l7.Content
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
	first   int64  // time of the frame's first byte
	place   uint32 // and its position
	end     int64  // the offset at which it ends
	padding int64  // bytes at its end
	block   block
	trial   struct { // the frame on trial, if it is DATA
		stream uint32
		ends   bool
		last   int64
	}
	last int64 // time of the last byte of the last piece

	// call is the one that transferred the piece at hand; opening are those that have transferred the header block until its content is
	// known to be wanted, where contents are kept.
	call    l7.Call
	opening l7.Opening
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

// search looks for a frame in a piece. What is before it is missing as if it were lost.
func (p *parser) search(r *reader, piece *l7.Piece) {
	data := r.stream.Peek()
	if n := min(len(data), headSize); n > 0 && string(data[:n]) == preface[:n] {
		r.state, r.trust = stateHead, onTrial // until the rest of it is there
		return
	}
	at, sure := find(data, int64(len(data)) == r.stream.Left(), r.longest)
	if at != 0 {
		p.doubt(r, piece.Ended)
	}
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
		r.first, r.place = piece.First(), r.stream.Position()
		p.openHead(r)
	}
	head, got := r.stream.Take(headSize)
	switch got {
	case l7.More:
		return false
	case l7.Hole, l7.Short:
		p.sink.Stats.Losses++
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

// expected reports whether a frame with this head may follow here.
func (p *parser) expected(r *reader) bool {
	switch r.trust {
	case onTrial:
		r.trust = waiting
	case waiting:
		if !r.frame.likely(r.longest) {
			return false
		}
		p.passTrial(r, r.first)
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
