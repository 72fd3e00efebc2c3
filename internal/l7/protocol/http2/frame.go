// SPDX-License-Identifier: Apache-2.0

package http2

import "encoding/binary"

// kind is the type of a frame.
type kind uint8

const (
	kindData kind = iota
	kindHeaders
	kindPriority
	kindReset
	kindSettings
	kindPushPromise
	kindPing
	kindGoAway
	kindWindowUpdate
	kindContinuation
	kindAltSvc         kind = 0x0a // RFC 7838
	kindOrigin         kind = 0x0c // RFC 8336
	kindPriorityUpdate kind = 0x10 // RFC 9218
)

const (
	flagEndStream  = 0x1
	flagAck        = 0x1 // of SETTINGS and PING
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	headSize        = 9
	usualFrame      = 1 << 14 // the length of a frame unless settings allow more
	settingSize     = 6
	resetSize       = 4
	goAwaySize      = 8
	prioritySize    = 5
	promiseSize     = 4
	streamBits      = 1<<31 - 1
	maxFrameSetting = 5 // SETTINGS_MAX_FRAME_SIZE
	longestFrame    = 1<<24 - 1
)

// preface is what a client says first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frame is the head of a frame.
type frame struct {
	length   int64
	kind     kind
	flags    uint8
	reserved bool // a bit is set that should not be
	stream   uint32
}

// parseFrame reads the head of a frame: RFC 9113, section 4.1.
func parseFrame(b []byte) frame {
	id := binary.BigEndian.Uint32(b[5:])
	return frame{
		length: int64(b[0])<<16 | int64(b[1])<<8 | int64(b[2]), kind: kind(b[3]), flags: b[4],
		reserved: id > streamBits, stream: id & streamBits,
	}
}

func (f *frame) has(flag uint8) bool { return f.flags&flag != 0 }

// prefix is the number of bytes before the content: the length of the padding, a priority, the stream that is promised.
func (f *frame) prefix() (n int64) {
	switch f.kind {
	case kindHeaders:
		if f.has(flagPriority) {
			n = prioritySize
		}
	case kindPushPromise:
		n = promiseSize
	case kindData:
	default:
		return 0
	}
	if f.has(flagPadded) {
		n++
	}
	return n
}

// record is the size of what is read of the content at once, in frames that say something about a stream or the connection.
func (f *frame) record() int {
	switch f.kind {
	case kindReset:
		return resetSize
	case kindGoAway:
		return goAwaySize
	}
	return settingSize
}

// rule is what RFC 9113, section 6, demands of the head of a frame.
type rule struct {
	onStream, onConnection bool // whether it may belong to a stream, or to none
	least, most            int64
	multiple               int64
	flags                  uint8 // that have a meaning
}

// rules of the kinds that are known; the others have none.
var rules = [kindPriorityUpdate + 1]rule{
	kindData:           {true, false, 0, longestFrame, 1, flagEndStream | flagPadded},
	kindHeaders:        {true, false, 1, longestFrame, 1, flagEndStream | flagEndHeaders | flagPadded | flagPriority},
	kindPriority:       {true, false, prioritySize, prioritySize, 1, 0},
	kindReset:          {true, false, resetSize, resetSize, 1, 0},
	kindSettings:       {false, true, 0, 64 * settingSize, settingSize, flagAck},
	kindPushPromise:    {true, false, promiseSize + 1, longestFrame, 1, flagEndHeaders | flagPadded},
	kindPing:           {false, true, 8, 8, 1, flagAck},
	kindGoAway:         {false, true, goAwaySize, usualFrame, 1, 0},
	kindWindowUpdate:   {true, true, 4, 4, 1, 0},
	kindContinuation:   {true, false, 0, longestFrame, 1, flagEndHeaders},
	kindAltSvc:         {true, true, 2, usualFrame, 1, 0},
	kindOrigin:         {false, true, 0, usualFrame, 1, 0},
	kindPriorityUpdate: {false, true, 4, usualFrame, 1, 0},
}

// unknownKind is the rule for extensions.
var unknownKind = rule{true, true, 0, usualFrame, 1, 0xff}

// rule is that of the frame's kind, or nil where the kind is not known.
func (f *frame) rule() *rule {
	if int(f.kind) >= len(rules) || !rules[f.kind].onStream && !rules[f.kind].onConnection {
		return nil
	}
	return &rules[f.kind]
}

// allowed reports whether there may be such a frame.
func (f *frame) allowed() bool {
	if r := f.rule(); r != nil {
		return f.keeps(r)
	}
	return f.keeps(&unknownKind)
}

func (f *frame) keeps(r *rule) bool {
	place := r.onStream && f.stream != 0 || r.onConnection && f.stream == 0
	return place && r.least <= f.length && f.length <= r.most && f.length%r.multiple == 0 && f.length >= f.prefix()
}

// likely reports whether the bytes, of which it is not known that a frame begins here, are one that programs send: of a known kind, at most
// so long, without flags that mean nothing.
func (f *frame) likely(longest int64) bool {
	r := f.rule()
	switch {
	case r == nil, !f.keeps(r), f.reserved, f.stream != 0 && f.stream%2 == 0, f.flags&^r.flags != 0, f.length > longest:
		return false
	case f.kind == kindData:
		return f.length > 0 || f.has(flagEndStream)
	case f.kind == kindSettings:
		return !f.has(flagAck) || f.length == 0
	}
	return true
}
