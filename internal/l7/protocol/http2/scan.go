// SPDX-License-Identifier: Apache-2.0

package http2

// run is frames one after the other.
type run struct {
	frames int
	whole  bool // the last ends where the bytes end
}

// sure reports whether so many frames one after the other are no accident.
func (r run) sure() bool { return r.frames > 1 || r.frames == 1 && r.whole }

// follow goes from frame to frame as long as their heads are known; all says that the bytes are the whole piece. It calls f with each
// frame and what is known of its content. What is no likely frame makes the run empty.
func follow(data []byte, all bool, longest int64, f func(frame, []byte)) (r run) {
	var before frame
	for len(data) >= headSize {
		head := parseFrame(data)
		if !head.likely(longest) || r.frames > 0 && !head.follows(&before) {
			return run{}
		}
		before = head
		r.frames++
		data = data[headSize:]
		if f != nil {
			f(head, data[:min(head.length, int64(len(data)))])
		}
		if head.length > int64(len(data)) {
			return r
		}
		data = data[head.length:]
	}
	r.whole = all && len(data) == 0
	return r
}

// follows reports whether it is likely that one frame comes right after another: a header block that goes on does so at once, and streams
// that are used at the same time have numbers that are not far apart.
func (f *frame) follows(before *frame) bool {
	goesOn := (before.kind == kindHeaders || before.kind == kindPushPromise || before.kind == kindContinuation) && !before.has(flagEndHeaders)
	if goesOn || f.kind == kindContinuation {
		return goesOn && f.kind == kindContinuation && f.stream == before.stream
	}
	const far = 1 << 16
	return f.stream == 0 || before.stream == 0 || max(f.stream, before.stream)-min(f.stream, before.stream) < far
}

// find looks for a frame in a piece: where one begins, or -1, and whether it is no accident. At the beginning of a piece, where programs
// begin what they write, a single frame is taken on trial; elsewhere nothing is.
func find(data []byte, all bool, longest int64) (at int, sure bool) {
	first := follow(data, all, longest, nil)
	if first.frames > 0 {
		return 0, first.sure()
	}
	const enough = 3
	for at := 1; at+headSize <= len(data); at++ {
		if r := follow(data[at:], all, longest, nil); r.frames >= enough || r.frames > 1 && r.whole {
			return at, true
		}
	}
	return -1, false
}
