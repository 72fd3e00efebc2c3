// SPDX-License-Identifier: Apache-2.0

package http1

import "bytes"

// How a chunked message ends without trailers (RFC 9112, section 7.1): behind the end of a line comes the last chunk, which is empty.
const chunksEnd = "\r\n0\r\n\r\n"

var (
	lineEnd     = []byte(chunksEnd[:2])
	lastSize    = []byte(chunksEnd[2:5])
	lineAndSize = []byte(chunksEnd[:5])
	fieldsEnd   = []byte(chunksEnd[3:])
)

// tail is with how much of chunksEnd a message without a known end ends up to here, and one more; 0: nothing is known of what is before,
// which is then believed to fit. With one byte for it connections stay within a size of the heap.
type tail uint8

// borders has for each part of chunksEnd the longest that it both begins and ends with.
var borders = [len(chunksEnd) + 1]int{4: 1, 5: 2, 6: 1, 7: 2}

// ends takes the next bytes, which are all of a piece or not, and reports whether with them a chunked message ends.
func (t *tail) ends(data []byte, whole bool) bool {
	if !whole {
		*t = 0
		return false
	}
	if len(data) == 0 {
		return false
	}
	if bytes.HasSuffix(data, fieldsEnd) && t.endsFields(data) {
		return true
	}
	matched := t.matched(data)
	for _, c := range data[max(0, len(data)-len(chunksEnd)):] {
		for matched > 0 && (matched == len(chunksEnd) || chunksEnd[matched] != c) {
			matched = borders[matched]
		}
		if chunksEnd[matched] == c {
			matched++
		}
	}
	*t = tail(matched + 1)
	return matched == len(chunksEnd)
}

// matched is how much of chunksEnd there is right before the last bytes of the data that are looked at.
func (t *tail) matched(data []byte) int {
	switch {
	case len(data) >= len(chunksEnd):
		return 0
	case *t > 0:
		return int(*t) - 1
	case bytes.HasPrefix(data, lastSize):
		return len(lineEnd)
	case data[0] == '\n':
		return 1
	}
	return 0
}

// endsFields reports whether the data, which ends as fields do, has a last chunk, and after it nothing but trailers.
func (t *tail) endsFields(data []byte) bool {
	fields, found := bytes.CutPrefix(data, lastSize)
	if !found || !t.endsLine() {
		at := bytes.LastIndex(data, lineAndSize)
		if at < 0 {
			return false
		}
		fields = data[at+len(lineAndSize):]
	}
	for {
		line, rest, found := bytes.Cut(fields, lineEnd)
		switch {
		case !found:
			return false
		case len(line) == 0:
			return len(rest) == 0
		case !isField(line):
			return false
		}
		fields = rest
	}
}

// endsLine reports whether a line may end here.
func (t *tail) endsLine() bool {
	matched := int(*t) - 1
	return *t == 0 || matched == len(lineEnd) || matched > 0 && borders[matched] == len(lineEnd)
}

// isField reports whether a line has a name without blanks, and a colon after it.
func isField(line []byte) bool {
	name, _, found := bytes.Cut(line, []byte(":"))
	if !found || len(name) == 0 {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
