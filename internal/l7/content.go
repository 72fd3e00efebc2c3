// SPDX-License-Identifier: Apache-2.0

package l7

import "unsafe"

// Contents has the content of messages kept, as far as it is wanted and there is room.
type Contents struct {
	// Wanted returns, by a request's path and query, what for its content and its response's
	// are wanted: a bit for each purpose, which [Content.For] repeats; 0: they are not.
	Wanted func(path, query []byte) uint64
	// Body bounds the bytes kept of one body, Head those of a head, Calls how many calls are
	// noted of one message.
	Body, Head, Calls int
	// Left is how many bytes may be kept by all connections in addition to what they keep now.
	Left int
	// Full counts contents that were cut for want of room.
	Full uint64
}

// Content is what was kept of a message.
type Content struct {
	// For is what [Contents.Wanted] has returned.
	For uint64
	// Head has the field lines, each with a line feed at its end; lines that went on with
	// the one before are joined to it. MoreFields is how many lines are left out.
	Head       []byte
	MoreFields int
	// Body is the beginning of the body as it was transferred, without its framing. Cut says
	// that it went on.
	Body []byte
	Cut  bool
	// Calls are those that transferred the message, in order; MoreCalls is how many of them
	// are left out at the end.
	Calls     []Call
	MoreCalls int

	owner *Contents
	held  int
	last  Call  // that was noted or left out
	full  bool  // it was cut for want of room
	at    int64 // offset at which the last call begins
	// omitted says that the last line of the head was left out.
	omitted bool
}

// Call is one that transferred bytes of a message.
type Call struct {
	Direction    Direction
	Began, Ended int64 // monotonic time, in ns
	Length       int64 // bytes of the message
	Wire         Wire
}

// is reports whether both are the same call, which may be reported in several pieces.
func (c Call) is(other Call) bool {
	return c.Direction == other.Direction && c.Began == other.Began && c.Ended == other.Ended
}

// Opening are the calls that have transferred a start line, until it is known whether the
// content of its message is wanted. The zero value has none.
type Opening struct {
	calls []Call
	at    int64 // offset at which the last of them begins
}

// Reset forgets them: another start line begins.
func (o *Opening) Reset() { o.calls = o.calls[:0] }

// Held is the number of bytes of memory held.
func (o *Opening) Held() int { return cap(o.calls) * int(unsafe.Sizeof(Call{})) }

// Add takes a call that transfers bytes of the start line, from this offset of the
// connection on, unless there are most of them already.
func (o *Opening) Add(call Call, at int64, most int) {
	if n := len(o.calls); n >= most || n > 0 && o.calls[n-1].is(call) {
		return
	}
	o.calls, o.at = append(o.calls, call), at
}

// New begins to keep the content of a message, whose start line these calls have
// transferred.
func (c *Contents) New(purposes uint64, opening Opening) *Content {
	content := &Content{For: purposes, owner: c}
	for i := range opening.calls {
		content.AddCall(opening.calls[i], opening.at)
	}
	return content
}

// reserve grants up to n bytes.
func (c *Content) reserve(n int) int {
	granted := max(min(n, c.owner.Left), 0)
	if granted < n && !c.full {
		c.full = true
		c.owner.Full++
	}
	return granted
}

// hold accounts for what is held now.
func (c *Content) hold() {
	now := cap(c.Head) + cap(c.Body) + cap(c.Calls)*int(unsafe.Sizeof(Call{}))
	c.owner.Left -= now - c.held
	c.held = now
}

// AddField takes a line of the head. Nothing is done with a nil content, here as below.
func (c *Content) AddField(line []byte) {
	if c == nil || len(line) == 0 {
		return
	}
	const end = 1
	folded := line[0] == ' ' || line[0] == '\t'
	// Half a line may be another one, and what goes on with a line that is not there is none.
	c.omitted = len(c.Head)+len(line)+end > c.owner.Head || folded && (c.omitted || len(c.Head) == 0) || c.reserve(len(line)+end) < len(line)+end
	if c.omitted {
		c.MoreFields++
		return
	}
	if folded {
		c.Head = c.Head[:len(c.Head)-end]
	}
	c.Head = append(append(c.Head, line...), '\n')
	c.hold()
}

// FitsField reports whether a line of so many bytes may be kept of the head: where it may not it need not be made.
func (c *Content) FitsField(size int) bool { return c != nil && len(c.Head)+size < c.owner.Head }

// OmitField leaves out a line of the head.
func (c *Content) OmitField() {
	if c != nil {
		c.MoreFields++
	}
}

// AddBody takes the next n bytes of the body, of which data, the first of them, are known.
func (c *Content) AddBody(data []byte, n int64) {
	if c == nil || c.Cut || n == 0 {
		return
	}
	wanted := min(len(data), c.owner.Body-len(c.Body))
	taken := c.reserve(wanted)
	c.Body = append(c.Body, data[:taken]...)
	c.Cut = int64(taken) < n
	c.hold()
}

// CutBody notes that what follows of the body is not known.
func (c *Content) CutBody() {
	if c != nil {
		c.Cut = true
	}
}

// AddCall takes the next call that transfers bytes of the message, from this offset of the
// connection on.
func (c *Content) AddCall(call Call, at int64) {
	if c == nil || c.goesOn(call) {
		return
	}
	c.last = call
	if len(c.Calls) >= c.owner.Calls || c.owner.Left <= 0 {
		c.MoreCalls++
		return
	}
	c.Calls = append(c.Calls, call)
	c.at = at
	c.hold()
}

// goesOn reports whether the call is the last that was noted or left out.
func (c *Content) goesOn(call Call) bool { return len(c.Calls)+c.MoreCalls > 0 && c.last.is(call) }

// AddBytes takes bytes of the message that a call has transferred, where others' lie between those of one message.
func (c *Content) AddBytes(call Call) {
	if c == nil || call.Length == 0 {
		return
	}
	if !c.goesOn(call) {
		c.AddCall(call, 0)
	} else if c.MoreCalls == 0 {
		c.Calls[len(c.Calls)-1].Length += call.Length
	}
}

// EndCall notes up to which offset of the connection the last call has transferred the
// message.
func (c *Content) EndCall(offset int64) {
	if c != nil && c.MoreCalls == 0 && len(c.Calls) > 0 {
		c.Calls[len(c.Calls)-1].Length = offset - c.at
	}
}

// Free gives the room back. The content is not used after it.
func (c *Content) Free() {
	if c == nil {
		return
	}
	c.owner.Left += c.held
	*c = Content{owner: c.owner}
}

// Held is the number of bytes of memory held.
func (c *Content) Held() int {
	if c == nil {
		return 0
	}
	return c.held
}

// Call is the piece as a call that has transferred its last n bytes for a message.
func (p *Piece) Call(n int64) Call {
	return Call{Direction: p.Direction, Began: p.Began, Ended: p.Ended, Length: n, Wire: p.Wire}
}
